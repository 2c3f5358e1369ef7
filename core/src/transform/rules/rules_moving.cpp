// Views, slices and concatenations.
#include "transform/rules/rule_texts.h"

namespace magis {

const std::string_view kMovingRules = R"rules(
rule view_of_view "a view of a view is a view" exact
  let a : [*S]
  from v = view(view(a, [*R]), [*Q])
  to v = view(a, [*Q])

rule concatenate_at_once "a concatenation in a concatenation is one" exact
  let *xs : [m, k]
  let *ys : [m, l]
  from c = cat([*xs, cat([*ys], 1)], 1)
  to c = cat([*xs, *ys], 1)

rule concatenate_rows_at_once "a concatenation in a concatenation is one, of rows" exact
  let *xs : [k, m]
  let *ys : [l, m]
  from c = cat([*xs, cat([*ys], 0)], 0)
  to c = cat([*xs, *ys], 0)

rule concatenate_rows_first "a concatenation in a concatenation is one, of rows, where it comes first" exact
  let *xs : [k, m]
  let *ys : [l, m]
  from c = cat([cat([*xs], 0), *ys], 0)
  to c = cat([*xs, *ys], 0)

rule concatenate_first "a concatenation in a concatenation is one, where it comes first" exact
  let *xs : [m, k]
  let *ys : [m, l]
  from c = cat([cat([*xs], 1), *ys], 1)
  to c = cat([*xs, *ys], 1)

rule concatenate_vectors_first "a concatenation in a concatenation is one, of vectors" exact
  let *xs : [k]
  let *ys : [l]
  from c = cat([cat([*xs], 0), *ys], 0)
  to c = cat([*xs, *ys], 0)

rule concatenate_relus "relus side by side are one relu" exact
  let a : [m, k]
  let b : [m, l]
  from c = cat([relu(a), relu(b)], 1)
  to c = relu(cat([a, b], 1))

rule add_concatenations "[a b] + [c d] is [(a + c) (b + d)]" exact
  let a, c : [m, k]
  let b, d : [m, l]
  from s = add(cat([a, b], 1), cat([c, d], 1))
  to s = cat([add(a, c), add(b, d)], 1)

rule add_transposes "a^T + b^T is (a + b)^T" exact
  let a, b : [m, n]
  from s = add(t(a), t(b))
  to s = t(add(a, b))

rule transposed_product "b^T a^T is (a b)^T"
  let a : [m, k]
  let b : [k, n]
  from p = mm(t(b), t(a))
  to p = t(mm(a, b))
)rules";

}  // namespace magis
