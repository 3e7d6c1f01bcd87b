/* What the tests share, with a fetch that holds every answer against the schemas. */
import { lookWith } from '../support.mjs';
import { validate } from './validator.mjs';

export * from '../support.mjs';
export const lookingFetch = lookWith(validate);
