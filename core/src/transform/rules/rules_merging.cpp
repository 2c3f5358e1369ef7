// Operators that share an operand become one.
#include "transform/rules/rule_texts.h"

namespace magis {

const std::string_view kMergingRules = R"rules(
rule merge_linears "x V + d and x W + e are slices of x [V W] + [d e]"
  let x : [m, k]
  let v : [n, k]
  let w : [p, k]
  let d : [n]
  let e : [p]
  from a = addmm(d, x, t(v))
  from b = addmm(e, x, t(w))
  to y = addmm(cat([d, e], 0), x, t(cat([v, w], 0)))
  to a = slice(y, 1, 0, n)
  to b = slice(y, 1, n, n + p)

rule merge_transposed_products "x V^T and x W^T are slices of x [V W]^T"
  let x : [m, k]
  let v : [n, k]
  let w : [p, k]
  from a = mm(x, t(v))
  from b = mm(x, t(w))
  to y = mm(x, t(cat([v, w], 0)))
  to a = slice(y, 1, 0, n)
  to b = slice(y, 1, n, n + p)

rule merge_products "x v and x w are slices of x [v w]"
  let x : [m, k]
  let v : [k, n]
  let w : [k, p]
  from a = mm(x, v)
  from b = mm(x, w)
  to y = mm(x, cat([v, w], 1))
  to a = slice(y, 1, 0, n)
  to b = slice(y, 1, n, n + p)

rule merge_products_by_rows "x w and y w are slices of [x; y] w"
  let x : [m, k]
  let y : [l, k]
  let w : [k, n]
  from a = mm(x, w)
  from b = mm(y, w)
  to z = mm(cat([x, y], 0), w)
  to a = slice(z, 0, 0, m)
  to b = slice(z, 0, m, m + l)

rule merge_transposed_products_by_rows "x^T w and y^T w are slices of [x y]^T w"
  let x : [k, m]
  let y : [k, l]
  let w : [k, n]
  from a = mm(t(x), w)
  from b = mm(t(y), w)
  to z = mm(t(cat([x, y], 1)), w)
  to a = slice(z, 0, 0, m)
  to b = slice(z, 0, m, m + l)

rule merge_batched_products "x v and x w are slices of x [v w], matrix by matrix"
  let x : [b, m, k]
  let v : [b, k, n]
  let w : [b, k, p]
  from r = bmm(x, v)
  from s = bmm(x, w)
  to y = bmm(x, cat([v, w], 2))
  to r = slice(y, 2, 0, n)
  to s = slice(y, 2, n, n + p)

rule merge_weights_of_a_batch "V^T x and W^T x, each weight the same for all, are slices of [V W]^T x"
  let x : [b, k, m]
  let v : [k, n]
  let w : [k, p]
  from r = bmm(bt(expand(v, [b, k, n])), x)
  from s = bmm(bt(expand(w, [b, k, p])), x)
  to y = bmm(bt(expand(cat([v, w], 1), [b, k, n + p])), x)
  to r = slice(y, 1, 0, n)
  to s = slice(y, 1, n, n + p)

rule merge_sum_of_products "x v + y w is [x y] [v; w]"
  let x : [m, k]
  let v : [k, n]
  let y : [m, l]
  let w : [l, n]
  from s = add(mm(x, v), mm(y, w))
  to s = mm(cat([x, y], 1), cat([v, w], 0))

rule merge_viewed_sum_of_products "x v + y w is [x y] [v; w], where both are viewed first"
  let x : [m, k]
  let v : [k, n]
  let y : [m, l]
  let w : [l, n]
  from s = add(view(mm(x, v), [*S]), view(mm(y, w), [*S]))
  to s = view(mm(cat([x, y], 1), cat([v, w], 0)), [*S])

rule merge_convolutions "convolutions of the same images are channels of one"
  let x : [b, c, h, w]
  let u : [n, c, i, j]
  let v : [p, c, i, j]
  let stride, padding, dilation, output : attribute
  from y = convolution(x, u, none, stride, padding, dilation, false, output, 1)
  from z = convolution(x, v, none, stride, padding, dilation, false, output, 1)
  to both = convolution(x, cat([u, v], 0), none, stride, padding, dilation, false, output, 1)
  to y = slice(both, 1, 0, n)
  to z = slice(both, 1, n, n + p)

rule enlarge_kernel "a kernel of 1 x 1 beside one of 3 x 3 is one of 3 x 3 with zeros around it"
  let x : [b, c, h, w]
  let u : [n, c, 3, 3]
  let v : [p, c, 1, 1]
  let stride, output : attribute
  from y = convolution(x, u, none, stride, [1, 1], [1, 1], false, output, 1)
  from z = convolution(x, v, none, stride, [0, 0], [1, 1], false, output, 1)
  to both = convolution(x, cat([u, pad(v, [1, 1, 1, 1], 0)], 0), none, stride, [1, 1], [1, 1], false, output, 1)
  to y = slice(both, 1, 0, n)
  to z = slice(both, 1, n, n + p)

rule sum_of_convolutions "convolutions of different images, added up, are one of all their channels"
  let x : [b, c, h, w]
  let y : [b, d, h, w]
  let u : [n, c, i, j]
  let v : [n, d, i, j]
  let stride, padding, dilation, output : attribute
  from s = add(convolution(x, u, none, stride, padding, dilation, false, output, 1), convolution(y, v, none, stride, padding, dilation, false, output, 1))
  to s = convolution(cat([x, y], 1), cat([u, v], 1), none, stride, padding, dilation, false, output, 1)

rule convolution_of_sum "the same kernel on two images, added up, is the kernel on their sum"
  let x, y : [b, c, h, w]
  let u : [n, c, i, j]
  let stride, padding, dilation, output : attribute
  from s = add(convolution(x, u, none, stride, padding, dilation, false, output, 1), convolution(y, u, none, stride, padding, dilation, false, output, 1))
  to s = convolution(add(x, y), u, none, stride, padding, dilation, false, output, 1)

rule sum_of_kernels "two kernels on the same images, added up, are the sum of the kernels"
  let x : [b, c, h, w]
  let u, v : [n, c, i, j]
  let stride, padding, dilation, output : attribute
  from s = add(convolution(x, u, none, stride, padding, dilation, false, output, 1), convolution(x, v, none, stride, padding, dilation, false, output, 1))
  to s = convolution(x, add(u, v), none, stride, padding, dilation, false, output, 1)
)rules";

}  // namespace magis
