/* Schemas with so few documents that all can be written down, by trying every text over an alphabet
 * or every member of a list against ajv: then any change of a byte has a known answer. */

const cases = [];
/* `texts`: everything that may be a document, and more. */
const add = (name, schema, texts) => cases.push({ name: `finite: ${name}`, schema, texts });
const range = (from, to) => Array.from({ length: to - from + 1 }, (_, i) => from + i);
const strings = (alphabet, most) => {
  let last = [''];
  const out = [''];
  for (let n = 0; n < most; n++) out.push(...(last = last.flatMap((s) => [...alphabet].map((c) => s + c))));
  return out.map((s) => JSON.stringify(s));
};
const products = (lists) => lists.reduce((out, list) => out.flatMap((o) => list.map((x) => [...o, x])), [[]]);
/* Objects of some of these members, in this order. */
const objects = (members) => products(Object.entries(members).map(([key, values]) => [null, ...values.map((v) => `${JSON.stringify(key)}:${v}`)]))
  .map((parts) => `{${parts.filter((p) => p !== null).join(',')}}`);
const arrays = (values, most) => range(0, most).flatMap((n) => products(Array(n).fill(values))).map((v) => `[${v.join(',')}]`);

const decimals = range(-1200, 1200).flatMap((x) => {
  const text = `${x < 0 ? '-' : ''}${Math.floor(Math.abs(x) / 100)}`, two = String(Math.abs(x) % 100).padStart(2, '0');
  return [`${text}.${two}`, ...(x % 10 === 0 ? [`${text}.${two[0]}`] : []), ...(x % 100 === 0 ? [text] : [])];
}).filter((t) => !/^-0(\.0*)?$/.test(t));
for (const [minimum, maximum] of [[0, 7], [-3, 12], [98, 103], [-12, -9], [1, 1], [7, 1034], [999, 1000]])
  add(`integers ${minimum} to ${maximum}`, { type: 'integer', minimum, maximum }, range(-1300, 1300).map(String));
add('open bounds', { type: 'integer', exclusiveMinimum: -2, exclusiveMaximum: 11 }, range(-1300, 1300).map(String));
for (const pattern of ['^[ab]{1,3}$', '^(ab|ba|c)$', '^a?b?c?d?$', '^(?!ab)[abc]{2}$', '^(?=.*b)[abc]{2,3}$', '^(a|b)c(a|b)$', '^a{2}(b{1,2}|c)$', '^[ab"]?a$', '^(ab){0,2}$', '^a$|^bb$|^ab$'])
  add(`pattern ${pattern}`, { type: 'string', pattern, maxLength: 4 }, strings('abcd"', 4));
add('pattern of bounded length', { type: 'string', pattern: '^(a|bcd)*$', minLength: 2, maxLength: 4 }, strings('abcd', 4));
add('strings', { enum: ['a', 'ab', 'abc', 'b', 'é', 'ê', '漢', '漣', '"', ''] }, ['a', 'ab', 'abc', 'b', 'é', 'ê', '漢', '漣', '"', '', 'c', 'abd'].map((s) => JSON.stringify(s)));
add('values', { enum: [1, 10, 1.5, 'x', null, true, [1], { a: 1 }, {}, []] }, ['1', '10', '1.5', '"x"', 'null', 'true', '[1]', '{"a":1}', '{}', '[]', '2', 'false']);
const small = { enum: ['x', 1] };
const member = ['"x"', '1', 'null'];
for (const required of [[], ['a'], ['b'], ['c'], ['a', 'c'], ['a', 'b', 'c']])
  add(`members, ${required.join(' and ') || 'none'} required`, { type: 'object', properties: { a: small, b: { type: 'null' }, c: small }, required, additionalProperties: false },
    objects({ a: member, b: member, c: member, d: member }));
add('names that begin alike', { type: 'object', properties: { a: small, ab: small, abc: small, 'a"': small, '': small }, additionalProperties: false },
  objects({ a: member, ab: member, abc: member, 'a"': member, '': member }));
for (const [minItems, maxItems] of [[0, 2], [1, 1], [2, 3], [0, 0]])
  add(`items ${minItems} to ${maxItems}`, { type: 'array', items: small, minItems, maxItems }, arrays(member, 4));
const kind = (name, properties) => ({ type: 'object', properties: { kind: { const: name }, ...properties }, required: ['kind', ...Object.keys(properties)], additionalProperties: false });
const kinds = objects({ kind: ['"a"', '"ab"', '"b"'], p: member, q: member });
for (const key of ['anyOf', 'oneOf'])
  add(`${key} of kinds`, { [key]: [kind('a', { p: small }), kind('ab', { q: { type: 'null' } }), kind('b', { p: small, q: small })] }, kinds);
add('anyOf beside required', { type: 'object', properties: { a: small, b: small, c: { type: 'null' } }, additionalProperties: false, anyOf: [{ required: ['a', 'c'] }, { required: ['b'] }] },
  objects({ a: member, b: member, c: member }));
add('allOf', { allOf: [{ type: 'object', properties: { a: { enum: ['x', 1] } } }, { properties: { a: { enum: [1, null] }, b: small }, required: ['b'] }, { properties: { a: true, b: true }, additionalProperties: false }] },
  objects({ a: member, b: member, c: member }));
add('lists of lists', { type: 'array', items: { type: 'array', items: { const: 1 }, maxItems: 2 }, maxItems: 2 }, arrays(arrays(['1', '2'], 3), 3));
add('nullable', { type: 'integer', minimum: 0, maximum: 3, nullable: true }, ['null', ...range(-9, 99).map(String), '"0"']);
add('types', { type: ['boolean', 'null', 'integer'], minimum: 5, maximum: 6 }, ['true', 'false', 'null', ...range(-9, 99).map(String)]);

let state = 7n;
function below(n) {
  state = (state * 6364136223846793005n + 1442695040888963407n) & 0xffffffffffffffffn;
  return Number((state >> 33n) % BigInt(n));
}
const bytes = [...'abcdx01925-."{}[]:,nulltrue\\é漢 '].filter((c) => c !== ' ');

/* Documents of each, and as many changed ones, with what is to become of them. */
export function finite(validator, n) {
  const list = [];
  cases.forEach((c, i) => {
    const valid = validator(c.schema), whole = new Set(c.texts.filter((t) => valid(JSON.parse(t))));
    const begun = new Set();
    for (const text of whole) {
      const b = Buffer.from(text);
      for (let k = 0; k <= b.length; k++) begun.add(b.subarray(0, k).toString('latin1'));
    }
    const all = [...whole];
    for (let k = 0; k < 4 * n; k++) {
      let text = all[below(all.length)];
      if (k < n) {
        list.push({ case: i, document: text, at: -1 });
        continue;
      }
      const at = below([...text].length + 1), cs = [...text];
      cs.splice(at, below(2), ...(below(4) === 0 ? [] : [bytes[below(bytes.length)]]));
      text = cs.join('');
      if (whole.has(text)) {
        list.push({ case: i, document: text, at: -1 });
        continue;
      }
      const b = Buffer.from(text);
      let taken = 0;
      while (taken < b.length && begun.has(b.subarray(0, taken + 1).toString('latin1'))) taken++;
      list.push({ case: i, kind: 'changed', document: text, at: taken });
    }
  });
  return { list, cases };
}
