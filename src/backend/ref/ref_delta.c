/* Gated DeltaNet, by definition (model-math 3.5 and 3.6): convolution, gates, the rule row by row
 * and in chunks. */
#include "backend/ref/ref_math.h"

void tt_ref_conv_silu(float *c, float *state, const float *u, const float *w, uint32_t C,
                      uint32_t c0, uint32_t c1, uint32_t T)
{
    for (uint32_t n = c0; n < c1; n++) {
        float past[3] = {state[n], state[C + n], state[2 * (size_t)C + n]};
        for (uint32_t t = 0; t < T; t++) {
            float now = u[(size_t)t * C + n];
            const float *tap = w + (size_t)n * 4;
            double sum = (double)tap[0] * past[0] + (double)tap[1] * past[1] +
                         (double)tap[2] * past[2] + (double)tap[3] * now;
            c[(size_t)t * C + n] = (float)ref_silu(sum);
            past[0] = past[1], past[1] = past[2], past[2] = now;
        }
        for (uint32_t j = 0; j < 3; j++)
            state[j * (size_t)C + n] = past[j];
    }
}

void tt_ref_delta_gates(float *g, float *beta, const float *a, const float *b, const float *A_log,
                        const float *dt_bias, uint32_t heads)
{
    for (uint32_t m = 0; m < heads; m++) {
        g[m] = (float)(-exp(A_log[m]) * ref_softplus((double)a[m] + dt_bias[m]));
        beta[m] = (float)ref_sigmoid(b[m]);
    }
}

/* Where the parts of one value head stand. */
typedef struct head_view {
    const float *q, *k, *v; /* row 0; rows are ld apart */
    const float *g, *beta;  /* rows are value_heads apart */
    float *o, *S;           /* rows of o are value_heads * value_dim apart */
    size_t ld, ldo, heads;
} head_view;

static head_view view_head(float *o, float *S, const float *c, size_t ld, const float *g,
                           const float *beta, const tt_delta_shape *s, uint32_t head)
{
    size_t key_head = head / (s->value_heads / s->key_heads), keys = s->key_heads * s->key_dim;
    return (head_view){
        .q = c + key_head * s->key_dim,
        .k = c + keys + key_head * s->key_dim,
        .v = c + 2 * keys + (size_t)head * s->value_dim,
        .g = g + head,
        .beta = beta + head,
        .o = o + (size_t)head * s->value_dim,
        .S = S + (size_t)head * s->key_dim * s->value_dim,
        .ld = ld,
        .ldo = (size_t)s->value_heads * s->value_dim,
        .heads = s->value_heads,
    };
}

void tt_ref_delta_recurrent(float *o, float *S, const float *c, size_t ld, const float *g,
                            const float *beta, const tt_delta_shape *s, uint32_t head, uint32_t v0,
                            uint32_t v1, uint32_t T)
{
    head_view h = view_head(o, S, c, ld, g, beta, s, head);
    size_t dk = s->key_dim, dv = s->value_dim;
    for (uint32_t t = 0; t < T; t++) {
        const float *q = h.q + t * ld, *k = h.k + t * ld, *v = h.v + t * ld;
        double decay = exp(h.g[t * h.heads]), b = h.beta[t * h.heads];
        for (uint32_t j = v0; j < v1; j++) {
            double m = 0, out = 0;
            for (size_t i = 0; i < dk; i++)
                m += decay * h.S[i * dv + j] * k[i];
            double delta = b * (v[j] - m);
            for (size_t i = 0; i < dk; i++) {
                float now = (float)(decay * h.S[i * dv + j] + k[i] * delta);
                h.S[i * dv + j] = now;
                out += (double)now * q[i];
            }
            h.o[t * h.ldo + j] = (float)out;
        }
    }
}

/* Workspace of a chunk of C rows, C <= TT_BLOCK; all in double. */
typedef struct chunk_work {
    double *A, *P; /* [C, C]: strictly lower coefficients, and (Q K') decayed, lower */
    double *U, *W; /* [C, dv], [C, dk] */
    double *V;     /* [C, dv]: V' */
} chunk_work;

/* A = strictLower(diag(beta) K K' o D), P = lower(Q K' o D); D is masked before it is
 * exponentiated. */
static void chunk_products(chunk_work *w, const head_view *h, const double *G, uint32_t C,
                           size_t dk)
{
    for (uint32_t i = 0; i < C; i++)
        for (uint32_t j = 0; j <= i; j++) {
            double kk = 0, qk = 0;
            for (size_t d = 0; d < dk; d++) {
                kk += (double)h->k[i * h->ld + d] * h->k[j * h->ld + d];
                qk += (double)h->q[i * h->ld + d] * h->k[j * h->ld + d];
            }
            double D = exp(G[i] - G[j]);
            w->A[i * C + j] = j < i ? h->beta[i * h->heads] * kk * D : 0;
            w->P[i * C + j] = qk * D;
        }
}

/* (I + A) U = diag(beta) V and (I + A) W = diag(beta e^G) K by forward substitution */
static void chunk_solve(chunk_work *w, const head_view *h, const double *G, uint32_t C, size_t dk,
                        size_t dv)
{
    for (uint32_t i = 0; i < C; i++) {
        double b = h->beta[i * h->heads];
        for (size_t n = 0; n < dv; n++) {
            double u = b * h->v[i * h->ld + n];
            for (uint32_t j = 0; j < i; j++)
                u -= w->A[i * C + j] * w->U[j * dv + n];
            w->U[i * dv + n] = u;
        }
        for (size_t n = 0; n < dk; n++) {
            double u = b * exp(G[i]) * h->k[i * h->ld + n];
            for (uint32_t j = 0; j < i; j++)
                u -= w->A[i * C + j] * w->W[j * dk + n];
            w->W[i * dk + n] = u;
        }
    }
}

/* V' = U - W S;  O = diag(e^G) Q S + P V';  S = e^G_C S + (diag(e^(G_C - G)) K)' V' */
static void chunk_outputs(chunk_work *w, const head_view *h, const double *G, uint32_t C, size_t dk,
                          size_t dv)
{
    for (uint32_t i = 0; i < C; i++)
        for (size_t n = 0; n < dv; n++) {
            double ws = 0;
            for (size_t d = 0; d < dk; d++)
                ws += w->W[i * dk + d] * h->S[d * dv + n];
            w->V[i * dv + n] = w->U[i * dv + n] - ws;
        }
    for (uint32_t i = 0; i < C; i++)
        for (size_t n = 0; n < dv; n++) {
            double qs = 0, pv = 0;
            for (size_t d = 0; d < dk; d++)
                qs += (double)h->q[i * h->ld + d] * h->S[d * dv + n];
            for (uint32_t j = 0; j <= i; j++)
                pv += w->P[i * C + j] * w->V[j * dv + n];
            h->o[i * h->ldo + n] = (float)(exp(G[i]) * qs + pv);
        }
    for (size_t d = 0; d < dk; d++)
        for (size_t n = 0; n < dv; n++) {
            double sum = exp(G[C - 1]) * h->S[d * dv + n];
            for (uint32_t i = 0; i < C; i++)
                sum += exp(G[C - 1] - G[i]) * h->k[i * h->ld + d] * w->V[i * dv + n];
            h->S[d * dv + n] = (float)sum;
        }
}

void tt_ref_delta_chunked(float *o, float *S, const float *c, size_t ld, const float *g,
                          const float *beta, const tt_delta_shape *s, uint32_t h0, uint32_t h1,
                          uint32_t pos0, uint32_t T, void *scratch)
{
    size_t dk = s->key_dim, dv = s->value_dim;
    for (uint32_t head = h0; head < h1; head++) {
        head_view h = view_head(o, S, c, ld, g, beta, s, head);
        for (uint32_t t = 0, C; t < T; t += C) {
            C = TT_BLOCK - (pos0 + t) % TT_BLOCK;
            C = C < T - t ? C : T - t;
            double G[TT_BLOCK] = {0}, sum = 0;
            for (uint32_t i = 0; i < C; i++)
                G[i] = sum += h.g[i * h.heads];
            chunk_work w = {.A = scratch};
            w.P = w.A + C * C;
            w.U = w.P + C * C;
            w.W = w.U + C * dv;
            w.V = w.W + C * dk;
            chunk_products(&w, &h, G, C, dk);
            chunk_solve(&w, &h, G, C, dk, dv);
            chunk_outputs(&w, &h, G, C, dk, dv);
            h.q += C * ld, h.k += C * ld, h.v += C * ld;
            h.g += C * h.heads, h.beta += C * h.heads, h.o += C * h.ldo;
        }
    }
}
