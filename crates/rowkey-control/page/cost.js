// What a query costs, from its `$filter` alone: the classes and their names are those of the client (`Cost`).
//
// PartitionKey and RowKey are the only index. A condition on another property makes the response smaller, and never
// the query cheaper; conditions inside an `or` or a `not` do not narrow it.

/** Each class with what the service reads. */
export const COSTS = {
  'point query': 'reads one entity',
  'range query': 'reads a range of one partition',
  'partition scan': 'reads every entity of one partition',
  'table scan': 'reads every entity of the table',
};

const TOKEN = /\w*'(?:[^']|'')*'|[()]|[^\s()']+|'/g;
/** Each operator with the one that says the same with its sides exchanged. */
const FLIPPED = { eq: 'eq', ne: 'ne', gt: 'lt', ge: 'le', lt: 'gt', le: 'ge' };

const fail = (what) => { throw new Error(what); };
const isValue = (token) => /^-?\d|'|^(true|false|null)$/.test(token);

/** The cost class of a filter; an empty one is a table scan. Throws an error that says what is wrong with it. */
export function costOf(filter) {
  const tokens = filter.match(TOKEN) ?? [];
  // The comparisons that must all hold: `[property, operator, value]`.
  const found = [];
  let at = 0;
  const take = (token) => tokens[at] === token && ++at;
  /** Parses with `part` what does not narrow the query. */
  const aside = (part, kept = found.length) => {
    part();
    found.length = kept;
  };
  const or = (kept = found.length) => {
    and();
    while (take('or')) aside(and, kept);
  };
  const and = () => {
    do { not(); } while (take('and'));
  };
  const not = () => (take('not') ? aside(not) : comparison());
  const operand = () => {
    if (take('(')) {
      or();
      return take(')') ? '' : fail('a closing parenthesis is missing');
    }
    const token = tokens[at++] ?? ')';
    return token === ')' || token === "'" ? fail('a property or a value is missing') : token;
  };
  const comparison = () => {
    const left = operand();
    const operator = Object.hasOwn(FLIPPED, tokens[at]) && tokens[at++];
    if (operator) {
      const right = operand();
      found.push(isValue(left) ? [right, FLIPPED[operator], left] : [left, operator, right]);
    } else if (isValue(left)) fail('an operator is missing: eq, ne, gt, ge, lt or le');
  };
  if (tokens.length) or();
  if (at < tokens.length) fail(`unexpected ${tokens[at]}`);
  const on = (key, ...operators) => found.some(([property, operator, value]) => property === key && operators.includes(operator) && value[0] === "'");
  if (!on('PartitionKey', 'eq')) return 'table scan';
  if (on('RowKey', 'eq')) return 'point query';
  return on('RowKey', 'gt', 'ge', 'lt', 'le') ? 'range query' : 'partition scan';
}
