/* Takes schemas of requests and objects out of OpenAI's published API description.
 *
 *   node extract.mjs openapi.json >api.json
 *
 * Kept are the roots below and what they refer to, without descriptions. `nullable` becomes a union
 * with null, as JSON Schema says it.
 */
import { readFileSync } from 'node:fs';

const roots = [
  'ApplyPatchToolCallItemParam', 'AssistantToolsFileSearch', 'BetaApplyPatchToolCallItemParam', 'BetaCompactionBody',
  'BetaFunctionToolParam', 'BetaInputTextContentParam', 'BetaLocalShellExecAction', 'BetaModerationResultBody',
  'BetaNamespaceToolParam', 'BetaResponseMCPCallArgumentsDoneEvent', 'Certificate', 'ChunkingStrategyRequestParam',
  'ComparisonFilter', 'CompletionUsage', 'ContainerFileListResource', 'ContainerNetworkPolicyAllowlistParam',
  'CreateImageRequest', 'CreateTranscriptionResponseDiarizedJson', 'CreateVectorStoreRequest',
  'CustomToolCallResource', 'CustomToolChatCompletions', 'EvalJsonlFileContentSource', 'EvalResponsesSource',
  'FunctionObject', 'FunctionToolParam', 'ImageGenTool', 'InferenceOptions',
  'MessageContentTextAnnotationsFileCitationObject', 'MessageContentTextAnnotationsFilePathObject',
  'MessageDeltaContentTextObject', 'ModelResponseProperties', 'PredictionContent', 'ProgramOutputItemParam',
  'ProjectHostedToolPermissions', 'RealtimeBetaServerEventConversationItemInputAudioTranscriptionCompleted',
  'RealtimeBetaServerEventTranscriptionSessionCreated', 'RealtimeClientEventConversationItemTruncate',
  'RealtimeServerEventResponseContentPartAdded', 'RealtimeServerEventResponseFunctionCallArgumentsDelta',
  'RealtimeTranslationClientSecretCreateRequest', 'RealtimeTruncation', 'ResponseTextParam', 'ResponseUsage',
  'ScrollParam', 'ThreadStreamEvent', 'UpdateVectorStoreRequest', 'Upload', 'WebhookBatchFailed',
];
const prefix = '#/components/schemas/';
const words = new Set(['description', 'title', 'example', 'examples', 'default', 'deprecated', 'externalDocs', 'discriminator']);

const document = JSON.parse(readFileSync(process.argv[2], 'utf8'));
const source = document.components.schemas;

/* A schema, or with `names` an object whose keys are names of properties. */
function take(value, found, names = false) {
  if (Array.isArray(value)) return value.map((v) => take(v, found));
  if (value === null || typeof value !== 'object') return value;
  const out = {};
  for (const [key, v] of Object.entries(value)) {
    if (!names && (words.has(key) || key.startsWith('x-') || key === 'nullable')) continue;
    if (!names && key === '$ref') {
      found.add(v.slice(prefix.length));
      out.$ref = '#/$defs/' + v.slice(prefix.length);
    } else {
      out[key] = take(v, found, !names && key === 'properties');
    }
  }
  return !names && value.nullable === true ? { anyOf: [out, { type: 'null' }] } : out;
}

const lines = roots.map((root) => {
  const found = new Set([root]), $defs = {};
  for (const name of found) $defs[name] = take(source[name], found); /* a set that grows while it is walked */
  return JSON.stringify({ name: `API: ${root}`, schema: { $defs, $ref: `#/$defs/${root}` } });
});
const { title, version, license } = document.info;
console.log(`{"$comment": ${JSON.stringify(`${title} ${version} (${license.name}), made by extract.mjs`)},\n"cases": [\n${lines.join(',\n')}\n]}`);
