// Several operators as one that PyTorch has.
#include "transform/rules/rule_texts.h"

namespace magis {

const std::string_view kFusionRules = R"rules(
rule add_to_product "c + x w is one kernel"
  let c : [m, n]
  let x : [m, k]
  let w : [k, n]
  from s = add(c, mm(x, w))
  to s = addmm(c, x, w)
  if complete(c, x)

rule add_to_viewed_product "c + x w is one kernel, where x w is viewed first"
  let c : [*S]
  let x : [m, k]
  let w : [k, n]
  from s = add(c, view(mm(x, w), [*S]))
  to s = view(addmm(view(c, [m, n]), x, w), [*S])
  if complete(c, x)

rule add_to_batched_product "c + x w is one kernel, matrix by matrix"
  let c : [b, m, n]
  let x : [b, m, k]
  let w : [b, k, n]
  from s = add(c, bmm(x, w))
  to s = baddbmm(c, x, w)

rule add_to_viewed_batched_product "c + x w is one kernel, where x w is viewed first"
  let c : [*S]
  let x : [b, m, k]
  let w : [b, k, n]
  from s = add(c, view(bmm(x, w), [*S]))
  to s = view(baddbmm(view(c, [b, m, n]), x, w), [*S])

rule add_to_scaled_product "c + a (x w) is one kernel"
  let c : [m, n]
  let x : [m, k]
  let w : [k, n]
  let a : number
  from s = add(c, scale(mm(x, w), a))
  to s = addmm(c, x, w, alpha=a)
  if complete(c, x)

rule scaled_product "a (x w) is one kernel"
  let x : [m, k]
  let w : [k, n]
  let a : number
  from s = scale(mm(x, w), a)
  to s = addmm(any(), x, w, beta=0, alpha=a)

rule scaled_batched_product "a (x w) is one kernel, matrix by matrix"
  let x : [b, m, k]
  let w : [b, k, n]
  let a : number
  from s = scale(bmm(x, w), a)
  to s = baddbmm(any(), x, w, beta=0, alpha=a)

rule scaled_viewed_batched_product "a (x w) is one kernel, where x w is viewed first"
  let x : [b, m, k]
  let w : [b, k, n]
  let a : number
  from s = scale(view(bmm(x, w), [*S]), a)
  to s = view(baddbmm(any(), x, w, beta=0, alpha=a), [*S])

rule divided_batched_product "(x w) / a is one kernel, matrix by matrix"
  let x : [b, m, k]
  let w : [b, k, n]
  let a : number
  from s = over(bmm(x, w), a)
  to s = baddbmm(any(), x, w, beta=0, alpha=1/a)

rule divided_viewed_batched_product "(x w) / a is one kernel, where x w is viewed first"
  let x : [b, m, k]
  let w : [b, k, n]
  let a : number
  from s = over(view(bmm(x, w), [*S]), a)
  to s = view(baddbmm(any(), x, w, beta=0, alpha=1/a), [*S])

rule product_with_one_matrix "matrices that all meet the same one are rows of one product"
  let x : [b, m, k]
  let w : [k, n]
  from p = bmm(x, expand(w, [b, k, n]))
  to p = view(mm(view(x, [b*m, k]), w), [b, m, n])

rule gelu_of_parts "x/2 (1 + tanh(...)) is gelu"
  let x : [*S]
  from h = scale(x, 0.5)
  from t = tanh(scale(add(x, scale(power(x, 3), 0.044715)), 0.7978845608028654))
  from y = mul(h, shift(t, 1))
  to y = gelu_tanh(x)

rule gelu_backward_of_parts "the derivative of x/2 (1 + tanh(...)) is that of gelu"
  let x, g : [*S]
  from h = scale(x, 0.5)
  from t = tanh(scale(add(x, scale(power(x, 3), 0.044715)), 0.7978845608028654))
  from m = scale(tanh_backward(mul(g, h), t), 0.7978845608028654)
  from cubic = mul(scale(m, 0.044715), scale(power(x, 2), 3))
  from d = add(add(m, cubic), scale(mul(g, shift(t, 1)), 0.5))
  to d = gelu_tanh_backward(g, x)

rule reciprocal_of_root "1 / sqrt(a) is rsqrt(a)"
  let a : [*S]
  from r = reciprocal(sqrt(a))
  to r = rsqrt(a)

rule times_reciprocal "a (1 / b) is a / b"
  let a, b : [*S]
  from q = mul(a, reciprocal(b))
  to q = div(a, b)

rule minus_for_plus_negative "a + (-b) is a - b" exact
  let a, b : [*S]
  from s = add(a, neg(b))
  to s = sub(a, b)

rule plus_for_minus_negative "a - (-b) is a + b" exact
  let a, b : [*S]
  from s = sub(a, neg(b))
  to s = add(a, b)
)rules";

}  // namespace magis
