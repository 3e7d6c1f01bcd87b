/* Schemas that want more than a grammar may take: deep, wide, multiplying, circular ones. Each ends in a
 * refusal, or compiles within the limits; `TinyTitanBench grammar` says how long that takes.
 *
 *   node hostile.mjs >hostile.json
 */
const cases = [];
const add = (name, schema) => cases.push({ name, schema, refusable: true });
const list = (n, f) => Array.from({ length: n }, (_, i) => f(i));
const nest = (n, f, inner) => list(n, () => 0).reduce((s) => f(s), inner);
const named = (n, f) => Object.fromEntries(list(n, (i) => [`p${i}`, f(i)]));
const defs = (n, f, last) => ({ $ref: '#/$defs/d0', $defs: { ...Object.fromEntries(list(n, (i) => [`d${i}`, f(`#/$defs/d${i + 1}`, i)])), [`d${n}`]: last } });

add('arrays 65 deep', nest(65, (s) => ({ type: 'array', minItems: 1, items: s }), { type: 'null' }));
add('arrays 64 deep', nest(64, (s) => ({ type: 'array', minItems: 1, items: s }), { type: 'null' }));
add('JSON 300 deep', nest(300, (s) => ({ items: s }), {}));
add('arrays 120 deep that need not be', nest(120, (s) => ({ type: 'array', items: s }), { type: 'null' }));
add('allOf 120 deep', nest(120, (s) => ({ allOf: [s] }), { type: 'null' }));
add('anyOf 120 deep', nest(120, (s) => ({ anyOf: [s, { type: 'boolean' }] }), { type: 'null' }));
add('properties 60 deep, four each', defs(60, (next) => ({ type: 'object', properties: named(4, () => ({ $ref: next })) }), { type: 'null' }));

add('30,000 properties', { type: 'object', properties: named(30000, () => ({ type: 'null' })), additionalProperties: false });
add('20,000 required properties', { type: 'object', properties: named(20000, () => ({ type: 'integer' })), required: list(20000, (i) => `p${i}`) });
add('3,000 properties with patterns', { type: 'object', properties: named(3000, (i) => ({ type: 'string', pattern: `^[a-z]{3}${i}(foo|bar){1,9}$` })) });
add('1,000 properties with formats', { type: 'object', properties: named(1000, (i) => ({ type: 'string', format: ['email', 'uri', 'ipv6', 'hostname'][i % 4], maxLength: 20 + i })) });
add('3,000 ranges of numbers', { type: 'object', properties: named(3000, (i) => ({ type: 'number', minimum: i + 0.12345678, maximum: 1e12 + i / 7 })) });
add('60,000 values', { enum: list(60000, (i) => `${(i * 2654435761) % 4294967296}`) });
add('257 alternatives', { anyOf: list(257, (i) => ({ const: i })) });
add('256 objects, oneOf', { oneOf: list(256, (i) => ({ type: 'object', properties: { kind: { const: `k${i}` }, ...named(8, () => ({ type: 'string' })) }, required: ['kind'], additionalProperties: false })) });
add('a name of 900 KiB', { type: 'object', properties: { ['x'.repeat(900 * 1024)]: { type: 'null' } } });
add('a text of 900 KiB', { const: 'x'.repeat(900 * 1024) });
add('more than 1 MiB', { title: 'x'.repeat(1024 * 1024) });

add('choices that multiply', { allOf: list(12, (i) => ({ anyOf: [{ minLength: i + 1 }, { maxLength: 100 + i }] })) });
add('choices of 60 references', defs(60, (next) => ({ anyOf: [{ $ref: next }, { $ref: next }] }), { type: 'null' }));
add('sums of 60 references', defs(60, (next) => ({ allOf: [{ $ref: next }, { $ref: next }] }), { type: 'null' }));
add('oneOf of oneOf of objects', { oneOf: list(40, (i) => ({ type: 'object', required: ['a', 'b'], properties: { a: { oneOf: list(40, (k) => ({ const: k })) }, b: { const: i } } })) });
add('objects not to be told apart', { oneOf: list(40, (i) => ({ type: 'object', required: list(40, (k) => `p${k}`), properties: named(40, (k) => ({ anyOf: list(6, (j) => ({ type: 'integer', minimum: j })) })) })) });
add('pattern of exponential size', { type: 'string', pattern: '^(a|b)*a(a|b){24}$' });
add('repetitions of repetitions', { type: 'string', pattern: '^((a{1000}){1000}){1000}$' });
add('a pattern of 100,000 characters', { type: 'string', pattern: `^${'(a|b)'.repeat(20000)}$` });
add('a class of 200,000 characters', { type: 'string', pattern: `^[${list(60000, (i) => String.fromCodePoint(0x4e00 + 2 * (i % 10000))).join('')}]$` });
add('patterns that all hold', { type: 'string', allOf: list(12, (i) => ({ pattern: `^(.{${i + 2}})*$` })) });
add('lookaheads', { type: 'string', pattern: `^${list(8, (i) => `(?=(.{${i + 2}})*$)`).join('')}.*$` });
add('at least 100,000 characters of a pattern', { type: 'string', pattern: '^(ab|c)*$', minLength: 100000 });
add('at most 100,000 characters of a pattern', { type: 'string', pattern: '^(ab|c){0,100000}$' });
add('a pattern at 400 places', { type: 'object', properties: named(400, (i) => ({ type: 'string', pattern: `^([a-z]|${i})*x([a-z]){8}$` })) });

add('a reference to itself', { $ref: '#' });
add('a circle of references', defs(50, (next, i) => ({ $ref: i === 49 ? '#/$defs/d0' : next }), {}));
add('a circle through allOf', defs(50, (next, i) => ({ allOf: [{ $ref: i === 49 ? '#/$defs/d0' : next }] }), {}));
add('a circle through anyOf', { anyOf: [{ $ref: '#' }, { type: 'null' }] });
add('an object that needs itself', { type: 'object', properties: { a: { $ref: '#' } }, required: ['a'] });
add('an array that needs itself', { type: 'array', items: { $ref: '#' }, minItems: 1 });
add('references to references', { $ref: '#/$defs/a/$ref', $defs: { a: { $ref: '#/$defs/a/$ref' } } });

console.log(JSON.stringify(cases));
