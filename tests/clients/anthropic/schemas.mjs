/* Schemas of what TinyTitanServer answers to a client of Anthropic's interface, written from the
 * types of the client library. Every member is there and no other, but for the citations of a text,
 * which the interface leaves out where there are none, and which `ai` takes in no other way. main.mjs
 * holds the names against the library's declarations.
 */
const string = { type: 'string' }, count = { type: 'integer', minimum: 0 }, nothing = { type: 'null' };
const is = (value) => ({ const: value });
const ref = (name) => ({ $ref: `#/$defs/${name}` });
const any = (...schemas) => ({ anyOf: schemas });
const list = (items) => ({ type: 'array', items });
const id = (prefix) => ({ type: 'string', pattern: `^${prefix}_[0-9a-f]{24}$` });
const object = (properties) => ({ type: 'object', properties, required: Object.keys(properties), additionalProperties: false });

const supported = object({ supported: { type: 'boolean' } });
const counts = {
  input_tokens: count, cache_creation_input_tokens: count, cache_read_input_tokens: count, output_tokens: count,
  output_tokens_details: ref('OutputTokensDetails'), server_tool_use: nothing,
};
const block = any(ref('TextBlock'), ref('ThinkingBlock'), ref('ToolUseBlock'));
const details = object({ error_code: is('thread_unsupported_request') });
const error = (type) => ({ ...object({ type: is(type), message: { type: 'string', minLength: 1 }, details }), required: ['type', 'message'] });

export const $defs = {
  OutputTokensDetails: object({ thinking_tokens: count }),
  DirectCaller: object({ type: is('direct') }),
  TextBlock: object({ type: is('text'), text: string }),
  ThinkingBlock: object({ type: is('thinking'), thinking: string, signature: is('') }),
  ToolUseBlock: object({ type: is('tool_use'), id: id('toolu'), name: string, input: { type: 'object' }, caller: ref('DirectCaller') }),
  Usage: object({ ...counts, cache_creation: nothing, service_tier: nothing, inference_geo: nothing, speed: nothing }),
  Message: object({
    id: id('msg'), type: is('message'), role: is('assistant'), model: string, content: list(block),
    stop_reason: { enum: ['end_turn', 'max_tokens', 'stop_sequence', 'tool_use', null] }, stop_sequence: any(string, nothing),
    stop_details: nothing, container: nothing, diagnostics: nothing, usage: ref('Usage'),
  }),
  TextDelta: object({ type: is('text_delta'), text: { type: 'string', minLength: 1 } }),
  ThinkingDelta: object({ type: is('thinking_delta'), thinking: { type: 'string', minLength: 1 } }),
  SignatureDelta: object({ type: is('signature_delta'), signature: is('') }),
  InputJSONDelta: object({ type: is('input_json_delta'), partial_json: { type: 'string', minLength: 1 } }),
  MessageDeltaUsage: object(counts),
  RawMessageStartEvent: object({ type: is('message_start'), message: ref('Message') }),
  RawContentBlockStartEvent: object({ type: is('content_block_start'), index: count, content_block: block }),
  RawContentBlockDeltaEvent: object({
    type: is('content_block_delta'), index: count,
    delta: any(ref('TextDelta'), ref('ThinkingDelta'), ref('SignatureDelta'), ref('InputJSONDelta')),
  }),
  RawContentBlockStopEvent: object({ type: is('content_block_stop'), index: count }),
  RawMessageDeltaEvent: object({
    type: is('message_delta'), usage: ref('MessageDeltaUsage'),
    delta: object({
      stop_reason: { enum: ['end_turn', 'max_tokens', 'stop_sequence', 'tool_use'] }, stop_sequence: any(string, nothing),
      stop_details: nothing, container: nothing,
    }),
  }),
  RawMessageStopEvent: object({ type: is('message_stop') }),
  Ping: object({ type: is('ping') }),
  MessageTokensCount: object({ input_tokens: count }),
  CapabilitySupport: supported,
  ContextManagementCapability: object({
    clear_thinking_20251015: supported, clear_tool_uses_20250919: supported, compact_20260112: supported, supported: { type: 'boolean' },
  }),
  EffortCapability: object({ low: supported, medium: supported, high: supported, xhigh: supported, max: supported, supported: { type: 'boolean' } }),
  ServerToolsCapability: object({ code_execution: supported, web_search: supported, supported: { type: 'boolean' } }),
  ThinkingTypes: object({ adaptive: supported, between_tools: supported, disabled: supported, enabled: supported }),
  ThinkingCapability: object({ supported: { type: 'boolean' }, types: ref('ThinkingTypes') }),
  ModelCapabilities: object({
    batch: supported, citations: supported, code_execution: supported, context_management: ref('ContextManagementCapability'),
    effort: ref('EffortCapability'), image_input: supported, pdf_input: supported, server_tools: ref('ServerToolsCapability'),
    structured_outputs: supported, thinking: ref('ThinkingCapability'),
  }),
  ModelInfo: object({
    type: is('model'), id: string, display_name: string, created_at: { type: 'string', pattern: '^\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\dZ$' },
    max_input_tokens: count, max_tokens: count, lifecycle: is('active'), line: nothing, deprecated_at: nothing, retires_at: nothing,
    capabilities: ref('ModelCapabilities'),
  }),
  ModelInfosPage: object({ data: list(ref('ModelInfo')), has_more: { type: 'boolean' }, first_id: any(string, nothing), last_id: any(string, nothing) }),
  ErrorResponse: object({
    type: is('error'), request_id: id('req'),
    error: any(...['invalid_request_error', 'authentication_error', 'permission_error', 'not_found_error', 'request_too_large',
      'overloaded_error', 'api_error'].map(error)),
  }),
};
