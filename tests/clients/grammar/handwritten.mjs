/* Schemas written for one keyword or one meeting of keywords each; then some as Pydantic makes them.
 * `also`: documents, where the generator does not find any by chance. */

const cases = [];
const add = (name, schema, more = {}) => cases.push({ name, schema, ...more });
const object = (properties, required = Object.keys(properties), additionalProperties = false) =>
  ({ type: 'object', properties, required, additionalProperties });

/* ---- types ---- */

for (const type of ['null', 'boolean', 'integer', 'number', 'string']) add(`type ${type}`, { type });
add('type list', { type: ['string', 'integer', 'null'] });
add('nullable', { type: 'string', nullable: true, maxLength: 3 });
add('nullable object', object({ a: { type: 'object', nullable: true, properties: { b: { type: 'boolean' } }, additionalProperties: false } }));
add('true', { type: 'array', items: true, maxItems: 2 });
add('any', { maxLength: 4, maxItems: 1, maximum: 3 });

/* ---- literals ---- */

add('enum of strings', { enum: ['a', 'ab', 'abc', 'b', '', '"', '\\', 'é', '\n', '漢字', '\u0001'] });
add('enum of everything', { enum: [null, true, false, 0, -1, 1.5, 1e21, 'x', [1, 'a'], { k: [] }, {}, []] });
add('enum and type', { type: 'integer', enum: [1, 2.5, 'x', 30] });
add('enum and bounds', { enum: [1, 2, 3, 4, 5], minimum: 2, exclusiveMaximum: 5 });
add('enum and length', { type: 'string', enum: ['a', 'bb', 'ccc', 'ééé'], minLength: 2, maxLength: 3 });
add('enum and pattern', { enum: ['cat', 'cow', 'dog'], type: 'string', pattern: '^c' });
add('const string', { const: 'it\'s "so"' });
add('const number', { const: -0.25 });
add('const null', { const: null });
add('const object', { const: { a: 1, b: ['x', null] } });
add('enum of numbers', { enum: [1, 10, 100, 1.0, 1.25, -7] });

/* ---- numbers ---- */

const bounds = [[0, 9], [1, 1], [-5, 5], [10, 1000], [-1000, -10], [99, 101], [7, 123456], [-1, 0], [0, 0],
  [-9007199254740991, 9007199254740991], [1900, 2100], [0, 18]];
for (const [minimum, maximum] of bounds) add(`integer ${minimum} to ${maximum}`, { type: 'integer', minimum, maximum });
for (const [minimum, maximum] of bounds.slice(0, 7)) add(`number ${minimum} to ${maximum}`, { type: 'number', minimum, maximum });
add('integer above', { type: 'integer', exclusiveMinimum: 41 });
add('integer below', { type: 'integer', exclusiveMaximum: -41 });
add('integer between broken bounds', { type: 'integer', minimum: 0.5, maximum: 3.5 });
add('number above 0', { type: 'number', exclusiveMinimum: 0 });
add('number below 0', { type: 'number', exclusiveMaximum: 0 });
add('number 0 to 1, open', { type: 'number', exclusiveMinimum: 0, exclusiveMaximum: 1 });
add('number of fine bounds', { type: 'number', minimum: 0.125, maximum: 0.1251 });
add('number across zero', { type: 'number', minimum: -0.5, exclusiveMaximum: 0.25 });
add('number below a fraction', { type: 'number', maximum: 2.75 });
add('number above a fraction', { type: 'number', minimum: -12.125 });
add('percent', { type: 'number', minimum: 0, maximum: 100 });
add('int32', { type: 'integer', format: 'int32' });
add('int64', { type: 'integer', format: 'int64' });

/* ---- strings ---- */

const lengths = [[0, 0], [1, 1], [0, 5], [3, 3], [2, 8], [0, 200], [20, 40]];
for (const [minLength, maxLength] of lengths) add(`string of ${minLength} to ${maxLength}`, { type: 'string', minLength, maxLength });
add('string of at least 12', { type: 'string', minLength: 12 });
const patterns = ['^[a-z]+$', '^\\d{3}-\\d{4}$', 'a|e', '^a', '^(foo|bar)+$', '^[^"\\\\]{2,4}$', '^$', '^\\s*\\S+\\s*$',
  '^[\\w.-]+@[\\w-]+\\.[a-z]{2,}$', '^.{3}$', '^(?:[A-Z][a-z]*\\s?){1,3}$', '^\\u00e9+$', '^[\\u{1F600}-\\u{1F64F}]{1,2}$', 'x|^y|z$',
  '^(?!foo)[a-z]{3}$', '^(?=.*\\d)[a-z\\d]{4,6}$', '^[\\x00-\\x1f"\\\\]{1,3}$', '^\\/[a-z/]*$', '^#[0-9a-fA-F]{6}$',
  '^(25[0-5]|2[0-4]\\d|1?\\d?\\d)(\\.(25[0-5]|2[0-4]\\d|1?\\d?\\d)){3}$', '^v?\\d+\\.\\d+\\.\\d+(?:-[0-9A-Za-z.-]+)?$', '^[^\\n]*$',
  '^[\\s\\S]{0,3}$', '^a{2,}b?c*$'];
for (const pattern of patterns) add(`pattern ${pattern}`, { type: 'string', pattern });
add('pattern z$', { type: 'string', pattern: 'z$', maxLength: 40 }); /* chance alone hardly finds its end */
add('pattern and most', { type: 'string', pattern: '^[a-z]+(-[a-z]+)*$', maxLength: 12 });
add('pattern and least', { type: 'string', pattern: '^(ab|c)*$', minLength: 5, maxLength: 9 });
add('pattern that ends late', { type: 'string', pattern: '^x.*end$', maxLength: 6 });
add('pattern and pattern', { type: 'string', allOf: [{ pattern: '^a' }, { pattern: 'z$' }, { pattern: '^[a-z]{3,9}$' }] }, { also: ['"abz"', '"abcdefghz"'] });
const formats = ['date', 'time', 'date-time', 'duration', 'email', 'hostname', 'ipv4', 'ipv6', 'uuid', 'uri'];
for (const format of formats) add(`format ${format}`, { type: 'string', format });
add('format and most', { type: 'string', format: 'email', maxLength: 14 });
add('format and pattern', { type: 'string', format: 'hostname', pattern: '\\.org$', maxLength: 30 }, { also: ['"a.org"', '"x-y.example.org"'] });

/* ---- arrays ---- */

add('array', { type: 'array', items: { type: 'boolean' } });
add('array of 0', { type: 'array', items: { type: 'boolean' }, maxItems: 0 });
add('array of 1', { type: 'array', items: { type: 'null' }, minItems: 1, maxItems: 1 });
add('array of 2 to 4', { type: 'array', items: { type: 'integer', minimum: 0, maximum: 9 }, minItems: 2, maxItems: 4 });
add('array of at least 5', { type: 'array', items: { enum: ['a', 'b'] }, minItems: 5 });
add('array of nothing', { type: 'array', items: false });
add('array of arrays', { type: 'array', items: { type: 'array', items: { type: 'integer', maximum: 3, minimum: 1 }, maxItems: 2 }, maxItems: 3 });

/* ---- objects ---- */

add('object', { type: 'object', maxLength: 1 });
add('object of nothing', { type: 'object', additionalProperties: false });
add('all required', object({ a: { type: 'integer', maximum: 9, minimum: 0 }, b: { type: 'boolean' }, c: { type: 'null' } }));
add('all optional', object({ a: { type: 'null' }, b: { type: 'null' }, c: { type: 'null' }, d: { type: 'null' } }, []));
add('some required', object({ a: { type: 'null' }, b: { type: 'null' }, c: { type: 'null' }, d: { type: 'null' }, e: { type: 'null' } }, ['b', 'd']));
add('names that begin alike', object({ a: { const: 1 }, ab: { const: 2 }, abc: { const: 3 }, abd: { const: 4 }, b: { const: 5 } }, ['abc']));
add('names to be escaped', object({ 'a"b': { const: 1 }, 'a\\': { const: 2 }, 'tab\t': { const: 3 }, 'é': { const: 4 }, '漢': { const: 5 }, '': { const: 6 }, '\u0002': { const: 7 } }, ['é']));
add('more properties', object({ a: { const: 1 }, ab: { const: 2 } }, ['a'], { type: 'boolean' }));
add('more properties, names to be told apart', object({ a: { const: 1 }, ab: { const: 2 }, 'é': { const: 3 }, 'x"y': { const: 4 }, '': { const: 5 } }, [], { const: 9 }));
add('only more properties', { type: 'object', additionalProperties: { type: 'integer', minimum: 0, maximum: 5 } });
add('any more properties', { type: 'object', properties: { kind: { const: 'k' } }, required: ['kind'] });
add('required without properties', { type: 'object', required: ['a', 'b'], additionalProperties: { type: 'null' } });
add('required and forbidden', { anyOf: [{ type: 'null' }, { type: 'object', required: ['a'], additionalProperties: false }] });
add('property that cannot be', object({ a: false, b: { const: 1 } }, ['b']));
add('property names', { type: 'object', propertyNames: { type: 'string' }, additionalProperties: { const: 0 } });
const wide = {};
for (let i = 0; i < 60; i++) wide[`property_${i % 7}_${i}`] = { type: 'boolean' };
add('sixty properties', object(wide, ['property_3_3', 'property_5_40']));
add('sixty optional properties', object(wide, []));
add('nested', object({ a: object({ b: object({ c: object({ d: { const: 1 } }) }) }) }));

/* ---- references ---- */

add('definitions', { $defs: { n: { type: 'integer', minimum: 0, maximum: 9 } }, ...object({ a: { $ref: '#/$defs/n' }, b: { $ref: '#/$defs/n' } }) });
add('list', { $defs: { list: object({ value: { type: 'boolean' }, next: { anyOf: [{ $ref: '#/$defs/list' }, { type: 'null' }] } }) }, $ref: '#/$defs/list' });
add('tree', object({ value: { type: 'integer', minimum: 0, maximum: 9 }, children: { type: 'array', items: { $ref: '#' }, maxItems: 2 } }));
add('two that need each other', { definitions: { a: object({ b: { $ref: '#/definitions/b' } }, []), b: object({ a: { $ref: '#/definitions/a' } }, []) }, $ref: '#/definitions/a' });
add('reference by a property', object({ a: { type: 'boolean' }, b: { $ref: '#/properties/a' } }));
add('escaped reference', { $defs: { 'a/b~c d': { const: 'yes' } }, ...object({ x: { $ref: '#/$defs/a~1b~0c%20d' } }) });
add('reference and more', { $defs: { s: { type: 'string' } }, ...object({ x: { $ref: '#/$defs/s', maxLength: 2 } }) });
const expression = { $defs: { e: { anyOf: [{ type: 'integer', minimum: 0, maximum: 99 },
  object({ op: { enum: ['+', '-'] }, left: { $ref: '#/$defs/e' }, right: { $ref: '#/$defs/e' } })] } }, $ref: '#/$defs/e' };
add('expression', expression);
add('any JSON', { $defs: { json: { anyOf: [{ type: 'null' }, { type: 'boolean' }, { type: 'array', items: { $ref: '#/$defs/json' }, maxItems: 2 }] } }, $ref: '#/$defs/json' });

/* ---- combinations ---- */

const shape = (kind, more) => object({ kind: { const: kind }, ...more });
const side = { type: 'number', minimum: 0, maximum: 10 };
const shapes = [shape('circle', { radius: side }), shape('square', { width: side }), shape('rectangle', { width: side, height: side })];
add('anyOf of objects', { anyOf: shapes });
add('oneOf of objects', { oneOf: shapes });
add('oneOf of types', { oneOf: [{ type: 'string', maxLength: 3 }, { type: 'integer' }, { type: 'null' }, { type: 'array', items: { type: 'null' }, maxItems: 2 }] });
add('oneOf of ranges', { oneOf: [{ type: 'integer', minimum: 0, maximum: 9 }, { type: 'integer', minimum: 100, maximum: 199 }] });
add('oneOf by presence', { oneOf: [object({ a: { const: 1 } }), object({ b: { const: 1 } }), object({ a: { const: 2 }, b: { const: 2 } })] });
add('oneOf beside properties', { type: 'object', properties: { t: { type: 'string' }, v: { type: 'integer', minimum: 0, maximum: 3 } }, required: ['t', 'v'], additionalProperties: false,
  oneOf: [{ properties: { t: { const: 'x' } } }, { properties: { t: { const: 'y' }, v: { const: 2 } } }] });
add('oneOf of lengths', { oneOf: [{ type: 'string', maxLength: 2 }, { type: 'string', minLength: 4, maxLength: 5 }] });
add('anyOf that overlap', { anyOf: [{ type: 'integer' }, { type: 'number', minimum: 0, maximum: 1 }, { enum: [1, 'one'] }] });
add('anyOf beside required', { ...object({ a: { const: 1 }, b: { const: 2 }, c: { const: 3 } }, []), anyOf: [{ required: ['a'] }, { required: ['b', 'c'] }] });
add('allOf of objects', { allOf: [{ type: 'object', properties: { a: { type: 'integer' } }, required: ['a'] }, { properties: { a: { minimum: 1, maximum: 3 }, b: { type: 'null' } }, required: ['b'] }, { additionalProperties: { type: ['integer', 'null'] } }] });
add('allOf of bounds', { allOf: [{ type: 'integer', minimum: 3 }, { maximum: 8 }, { exclusiveMaximum: 8 }] });
add('allOf and anyOf', { allOf: [{ anyOf: [{ type: 'string' }, { type: 'integer' }] }, { anyOf: [{ type: 'integer', minimum: 5, maximum: 6 }, { type: 'boolean' }] }] });
add('allOf with a reference', { $defs: { base: { type: 'object', properties: { id: { type: 'integer', minimum: 1, maximum: 9 } }, required: ['id'] } },
  allOf: [{ $ref: '#/$defs/base' }, { type: 'object', properties: { name: { enum: ['n', 'm'] } }, required: ['name'] }], additionalProperties: { const: 1 }, properties: { id: true, name: true } });
add('fifty alternatives', { anyOf: Array.from({ length: 50 }, (_, i) => shape(`kind-${i}`, { [`field${i}`]: { type: 'boolean' } })) });

/* ---- as Pydantic makes them ---- */

const optional = (schema) => ({ anyOf: [schema, { type: 'null' }], default: null });
add('Pydantic: user', { $defs: { Address: { properties: { street: { title: 'Street', type: 'string', maxLength: 20 }, zip: { pattern: '^\\d{5}$', title: 'Zip', type: 'string' } }, required: ['street', 'zip'], title: 'Address', type: 'object' } },
  properties: { name: { minLength: 1, maxLength: 20, title: 'Name', type: 'string' }, age: { exclusiveMinimum: 0, maximum: 130, title: 'Age', type: 'integer' }, email: { ...optional({ format: 'email', type: 'string', maxLength: 30 }), title: 'Email' }, address: { $ref: '#/$defs/Address' }, tags: { default: [], items: { type: 'string', maxLength: 5 }, title: 'Tags', type: 'array', maxItems: 3 } },
  required: ['name', 'age', 'address'], title: 'User', type: 'object', additionalProperties: false });
add('Pydantic: enum and date', { $defs: { Colour: { enum: ['red', 'green', 'blue'], title: 'Colour', type: 'string' } }, properties: { colour: { $ref: '#/$defs/Colour' }, on: { format: 'date', title: 'On', type: 'string' }, at: { format: 'date-time', title: 'At', type: 'string' }, id: { format: 'uuid', title: 'Id', type: 'string' } }, required: ['colour', 'on', 'at', 'id'], title: 'Event', type: 'object', additionalProperties: false });
add('Pydantic: tagged union', { $defs: { Cat: object({ pet_type: { const: 'cat', title: 'Pet Type', type: 'string' }, lives: { maximum: 9, minimum: 0, type: 'integer' } }), Dog: object({ pet_type: { const: 'dog', title: 'Pet Type', type: 'string' }, good: { type: 'boolean' } }) },
  properties: { pet: { discriminator: { mapping: { cat: '#/$defs/Cat', dog: '#/$defs/Dog' }, propertyName: 'pet_type' }, oneOf: [{ $ref: '#/$defs/Cat' }, { $ref: '#/$defs/Dog' }], title: 'Pet' } }, required: ['pet'], title: 'Owner', type: 'object', additionalProperties: false });
add('Pydantic: node', { $defs: { Node: { properties: { value: { title: 'Value', type: 'integer' }, left: optional({ $ref: '#/$defs/Node' }), right: optional({ $ref: '#/$defs/Node' }) }, required: ['value'], title: 'Node', type: 'object', additionalProperties: false } }, $ref: '#/$defs/Node' });
add('Pydantic: map', { properties: { scores: { additionalProperties: { type: 'number', minimum: 0, maximum: 1 }, title: 'Scores', type: 'object' } }, required: ['scores'], title: 'Map', type: 'object', additionalProperties: false });
add('Pydantic: decimal', { properties: { price: { anyOf: [{ exclusiveMinimum: 0.0, type: 'number' }, { pattern: '^(?!^[-+.]*$)[+]?0*\\d*\\.?\\d*$', type: 'string', maxLength: 12 }], title: 'Price' } }, required: ['price'], title: 'Item', type: 'object', additionalProperties: false });

/* ---- grammars written by hand ---- */

const ebnf = (name, text, matches) => cases.push({ name, ebnf: text, matches });
ebnf('EBNF: words', 'root ::= word (" " word){2,4}\nword ::= [a-z]{1,8}', '^[a-z]{1,8}( [a-z]{1,8}){2,4}$');
ebnf('EBNF: answer', 'root ::= "yes" | "no" | "maybe" ", " [a-z ]{3,10}', '^(yes|no|maybe, [a-z ]{3,10})$');
ebnf('EBNF: numbers', 'root ::= number ("," number)*\nnumber ::= "-"? ([0-9] | [1-9] [0-9]{1,3})', '^-?(\\d|[1-9]\\d{1,3})(,-?(\\d|[1-9]\\d{1,3}))*$');
ebnf('EBNF: brackets', 'root ::= item{1,3}\nitem ::= "(" item? ")" | "[" item? "]"', '^[()\\[\\]]+$');
ebnf('EBNF: Unicode', 'root ::= [\\u00e0-\\u00ff\\U0001F600-\\U0001F64F]{1,6} "!"', '^[\\u00e0-\\u00ff\\u{1F600}-\\u{1F64F}]{1,6}!$');
ebnf('EBNF: lines', 'root ::= line{2}\nline ::= "- " [^\\n]{1,20} "\\n"', '^(- [^\\n]{1,20}\\n){2}$');

export default cases;
