// Identities of sums, products and what is linear.
#include "transform/rules/rule_texts.h"

namespace magis {

const std::string_view kAlgebraRules = R"rules(
rule regroup_sum "(a + b) + c is a + (b + c)"
  let a, b, c : [*S]
  from s = add(add(a, b), c)
  to s = add(a, add(b, c))

rule regroup_product "(a b) c is a (b c)"
  let a, b, c : [*S]
  from p = mul(mul(a, b), c)
  to p = mul(a, mul(b, c))

rule twice "a + a is 2 a" exact
  let a : [*S]
  from s = add(a, a)
  to s = scale(a, 2)

rule sum_of_multiples "x a + y a is (x + y) a"
  let a : [*S]
  let x, y : number
  from s = add(scale(a, x), scale(a, y))
  to s = scale(a, x + y)

rule one_more "a + x a is (1 + x) a"
  let a : [*S]
  let x : number
  from s = add(a, scale(a, x))
  to s = scale(a, 1 + x)

rule square "a a is a to the power of 2"
  let a : [*S]
  from p = mul(a, a)
  to p = power(a, 2)

rule square_as_product "a to the power of 2 is a a"
  let a : [*S]
  from p = power(a, 2)
  to p = mul(a, a)

rule product_of_squares "a^2 b^2 is (a b)^2" wide
  let a, b : [*S]
  from p = mul(power(a, 2), power(b, 2))
  to p = power(mul(a, b), 2)

rule distribute "(a + b) c is a c + b c" wide
  let a, b, c : [*S]
  from p = mul(add(a, b), c)
  to p = add(mul(a, c), mul(b, c))

rule factor "a c + b c is (a + b) c" wide
  let a, b, c : [*S]
  from s = add(mul(a, c), mul(b, c))
  to s = mul(add(a, b), c)

rule factor_difference "a c - b c is (a - b) c" wide
  let a, b, c : [*S]
  from s = sub(mul(a, c), mul(b, c))
  to s = mul(sub(a, b), c)

rule factor_number "x a + x b is x (a + b)"
  let a, b : [*S]
  let x : number
  from s = add(scale(a, x), scale(b, x))
  to s = scale(add(a, b), x)

rule factor_divisor "a / x + b / x is (a + b) / x"
  let a, b : [*S]
  let x : number
  from s = add(over(a, x), over(b, x))
  to s = over(add(a, b), x)

rule scale_twice "y (x a) is (x y) a"
  let a : [*S]
  let x, y : number
  from s = scale(scale(a, x), y)
  to s = scale(a, x * y)

rule divide_twice "(a / x) / y is a / (x y)"
  let a : [*S]
  let x, y : number
  from s = over(over(a, x), y)
  to s = over(a, x * y)

rule scale_quotient "y (a / x) is (y / x) a"
  let a : [*S]
  let x, y : number
  from s = scale(over(a, x), y)
  to s = scale(a, y / x)

rule scale_factor "(x a) b is x (a b)"
  let a, b : [*S]
  let x : number
  from p = mul(scale(a, x), b)
  to p = scale(mul(a, b), x)

rule shift_twice "(a + x) + y is a + (x + y)"
  let a : [*S]
  let x, y : number
  from s = shift(shift(a, x), y)
  to s = shift(a, x + y)

rule divide_by_both "(a / b) / c is a / (b c)" wide
  let a, b, c : [*S]
  from q = div(div(a, b), c)
  to q = div(a, mul(b, c))

rule common_divisor "a / c + b / c is (a + b) / c" wide
  let a, b, c : [*S]
  from s = add(div(a, c), div(b, c))
  to s = div(add(a, b), c)

rule negate_twice "-(-a) is a" exact
  let a : [*S]
  from n = neg(neg(a))
  to n = a

rule product_of_negatives "(-a) (-b) is a b" exact
  let a, b : [*S]
  from p = mul(neg(a), neg(b))
  to p = mul(a, b)

rule negate_difference "-(a - b) is b - a" exact
  let a, b : [*S]
  from n = neg(sub(a, b))
  to n = sub(b, a)

rule scale_of_negative "x (-a) is (-x) a" exact
  let a : [*S]
  let x : number
  from s = scale(neg(a), x)
  to s = scale(a, -1 * x)

rule relu_twice "relu of relu is relu" exact
  let a : [*S]
  from r = relu(relu(a))
  to r = relu(a)

rule absolute_twice "|(|a|)| is |a|" exact
  let a : [*S]
  from r = abs(abs(a))
  to r = abs(a)

rule absolute_of_negative "|-a| is |a|" exact
  let a : [*S]
  from r = abs(neg(a))
  to r = abs(a)

rule absolute_of_square "(|a|)^2 is a^2" exact
  let a : [*S]
  from r = power(abs(a), 2)
  to r = power(a, 2)

rule product_of_exponentials "exp(a) exp(b) is exp(a + b)" wide
  let a, b : [*S]
  from p = mul(exp(a), exp(b))
  to p = exp(add(a, b))

rule associate_right "(a b) c is a (b c), of matrices"
  let a : [m, k]
  let b : [k, l]
  let c : [l, n]
  from p = mm(mm(a, b), c)
  to p = mm(a, mm(b, c))

rule associate_left "a (b c) is (a b) c, of matrices"
  let a : [m, k]
  let b : [k, l]
  let c : [l, n]
  from p = mm(a, mm(b, c))
  to p = mm(mm(a, b), c)

rule associate_batch_right "(a b) c is a (b c), matrix by matrix"
  let a : [i, m, k]
  let b : [i, k, l]
  let c : [i, l, n]
  from p = bmm(bmm(a, b), c)
  to p = bmm(a, bmm(b, c))

rule associate_batch_left "a (b c) is (a b) c, matrix by matrix"
  let a : [i, m, k]
  let b : [i, k, l]
  let c : [i, l, n]
  from p = bmm(a, bmm(b, c))
  to p = bmm(bmm(a, b), c)

rule common_left_factor "x a + x b is x (a + b), of matrices"
  let x : [m, k]
  let a, b : [k, n]
  from s = add(mm(x, a), mm(x, b))
  to s = mm(x, add(a, b))

rule common_right_factor "a w + b w is (a + b) w, of matrices"
  let a, b : [m, k]
  let w : [k, n]
  from s = add(mm(a, w), mm(b, w))
  to s = mm(add(a, b), w)

rule common_left_factor_of_batch "x a + x b is x (a + b), matrix by matrix"
  let x : [i, m, k]
  let a, b : [i, k, n]
  from s = add(bmm(x, a), bmm(x, b))
  to s = bmm(x, add(a, b))

rule common_right_factor_of_batch "a w + b w is (a + b) w, matrix by matrix"
  let a, b : [i, m, k]
  let w : [i, k, n]
  from s = add(bmm(a, w), bmm(b, w))
  to s = bmm(add(a, b), w)

rule scale_left_factor "x (a b) is (x a) b, of matrices"
  let a : [m, k]
  let b : [k, n]
  let x : number
  from s = scale(mm(a, b), x)
  to s = mm(scale(a, x), b)

rule scale_right_factor "x (a b) is a (x b), of matrices"
  let a : [m, k]
  let b : [k, n]
  let x : number
  from s = scale(mm(a, b), x)
  to s = mm(a, scale(b, x))

rule scale_product "(x a) b is x (a b), of matrices"
  let a : [m, k]
  let b : [k, n]
  let x : number
  from p = mm(scale(a, x), b)
  to p = scale(mm(a, b), x)

rule sum_of_scaled "the sum of x a is x times the sum of a"
  let a : [m, n]
  let x : number
  from s = sum(scale(a, x), [0], true)
  to s = scale(sum(a, [0], true), x)

rule sum_of_sum "sums of rows, added up, are sums of the rows of the sum"
  let a, b : [m, n]
  from s = add(sum(a, [0], true), sum(b, [0], true))
  to s = sum(add(a, b), [0], true)

rule sum_of_product "the sum of the rows of a b is the sum of a's rows, times b"
  let a : [m, k]
  let b : [k, n]
  from s = sum(mm(a, b), [0], true)
  to s = mm(sum(a, [0], true), b)
)rules";

}  // namespace magis
