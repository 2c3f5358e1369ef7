// Matrix products: 2 m k n operations each.
#include "graph/axes_families.h"
#include "graph/op_shapes.h"
#include "graph/op_table_builder.h"

namespace magis {
namespace {

// Every element of the result sums as many products as the left factor's last dimension is long.
template <std::size_t kLeft>
double product_flops(const Graph& graph, const Operator& op) {
  const Type* left = operand_type(graph, op, kLeft);
  if (left == nullptr) return 0;
  return 2 * elements(graph.value(op.results[0]).type) * length_from_end(*left, 0);
}

// Sums the products of a whole batch into one matrix.
double addbmm_flops(const Graph& graph, const Operator& op) {
  const Type* left = operand_type(graph, op, 1);
  const Type* right = operand_type(graph, op, 2);
  if (left == nullptr || right == nullptr) return 0;
  return 2 * elements(*left) * length_from_end(*right, 0);
}

// grad_input = grad_output W, grad_weight = grad_output^T input.
double linear_backward_flops(const Graph& graph, const Operator& op) {
  const Type* grad_output = operand_type(graph, op, 1);
  const Type* weight = operand_type(graph, op, 2);
  if (grad_output == nullptr || weight == nullptr) return 0;
  const double one = 2 * elements(*grad_output) * length_from_end(*weight, 0);
  return one * (has_result(graph, op, 0) ? 1 : 0) + one * (has_result(graph, op, 1) ? 1 : 0);
}

}  // namespace

void add_matmuls(OpTableBuilder& table) {
  for (std::string_view name :
       {"aten.mm", "aten.bmm", "aten.mv", "aten.dot", "aten.vdot", "aten.mm.dtype",
        "aten.bmm.dtype", "aten._int_mm", "aten._scaled_mm", "aten.linear", "aten.addmm",
        "aten.baddbmm", "aten.addmv", "aten.addmm.dtype", "aten.baddbmm.dtype",
        "aten._addmm_activation"}) {
    const bool adds = name.find(".addm") != name.npos || name.find(".badd") != name.npos ||
                      name.find("._addm") != name.npos;
    table.add(name, Purity::pure).flops = adds ? product_flops<1> : product_flops<0>;
  }
  // The sum is written over what the product is added to.
  for (std::string_view name : {"aten.addmm", "aten.baddbmm"}) {
    table.writes_over_first(name);
  }
  table.of({"aten.mm", "aten.mm.dtype"}).axes("mk, kn -> mn+k");
  table.of({"aten.bmm", "aten.bmm.dtype"}).axes("bmk, bkn -> bmn+k");
  table.of({"aten.mv"}).axes("mk, k -> m+k");
  table.of({"aten.dot"}).axes("k, k -> +k");
  table.of({"aten.addmm", "aten.addmm.dtype"}).axes("!~mn, mk, kn -> mn+k");
  table.of({"aten.baddbmm", "aten.baddbmm.dtype"}).axes("!~bmn, bmk, bkn -> bmn+k");
  table.of({"aten.addmv"}).axes("!~m, mk, k -> m+k");
  table.add("aten.addbmm", Purity::pure).flops = addbmm_flops;
  table.add("aten.linear_backward", Purity::pure).flops = linear_backward_flops;
  table.of({"aten.vdot"}).axes("k, k -> +k");
  table.of({"aten._int_mm"}).axes("mk, kn -> mn+k");
  table.of({"aten._addmm_activation"}).axes("~mn, mK, Kn -> mn");
  table.of({"aten.linear"}).axes("b*k, nk, !n -> b*n+k");
  table.of({"aten.addbmm"}).axes("!~mn, bmk, bkn -> mn+bk");
  table.of({"aten.linear_backward"}).axes("b*k, b*n, nk -> b*k+n, nk+b*, n+b*=k");
  table.pure({"aten.addr"}).axes("~mn, m, n -> mn");
  table.pure({"aten.outer"}).axes("m, n -> mn");
  table.pure({"aten.linalg_cross"}).axes(along<kNoPosition>);
  table.pure({"aten._cdist_forward"}).axes("b*pM, b*rM -> b*pr");
  table.pure({"aten._cdist_backward"}).axes("b*pr, b*pM, b*rM, _, b*pr -> b*pM+r");
  table.pure({"aten._euclidean_dist"}).axes("pM, rM -> pr");
  // Each matrix of a batch by itself.
  table.pure({"aten.cholesky_inverse"}).axes("b*.. -> b*..");
  OpInfo& exponential = table.add("aten.linalg_matrix_exp", Purity::pure);
  exponential.axes = "b*.. -> b*..";
  exponential.scratch = uncertain_scratch;  // the series is as long as the norm asks
  table.pure({"aten.linalg_inv_ex", "aten.linalg_cholesky_ex"}).axes("b*.. -> b*.., b*");
  table.pure({"aten.linalg_solve_triangular"}).axes("b*.., b*.. -> b*..");
  table.pure({"aten._linalg_det"}).axes("b*.. -> b*, b*.., b*.");
  table.pure({"aten._linalg_slogdet"}).axes("b*.. -> b*, b*, b*.., b*.");
  table.pure({"aten._linalg_solve_ex"}).axes("b*.., b*.. -> b*.., b*.., b*., b*");
  table.pure({"aten._linalg_eigh"}).axes("b*.. -> b*., b*..");
  table.pure({"aten.linalg_eig"}).axes("b*.. -> b*., b*..");
  table.pure({"aten._linalg_svd"}).axes("b*.. -> b*.., b*., b*..");
  table.pure({"aten.linalg_qr"}).axes("b*.. -> b*.., b*..");
  table.pure({"aten.linalg_householder_product"}).axes("b*.., b*. -> b*..");
  table.pure({"aten.linalg_lu_factor_ex"}).axes("b*.. -> b*.., b*., b*");
  table.pure({"aten.linalg_lu_solve"}).axes("b*.., b*., b*.. -> b*..");
  table.pure(
      {"aten._trilinear", "aten._grouped_mm", "aten._pdist_forward", "aten._pdist_backward"});
}

}  // namespace magis
