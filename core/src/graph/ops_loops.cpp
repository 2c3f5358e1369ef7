// Loops over the parts of an axis, and what writes their results (ARCHITECTURE.md, "Fission").
#include "graph/op_shapes.h"
#include "graph/op_table_builder.h"

namespace magis {
namespace {

// magis.add_mm_part(result, a, b): the product is added to what is there.
double part_product_flops(const Graph& graph, const Operator& op) {
  const Type* left = operand_type(graph, op, 1);
  const Type* right = operand_type(graph, op, 2);
  if (left == nullptr || right == nullptr) return 0;
  return 2 * elements(*left) * length_from_end(*right, 0);
}

}  // namespace

void add_loops(OpTableBuilder& table) {
  table.mutating({"magis.begin"}, {});
  table.mutating({"magis.end"}, {1});
  table.mutating({"magis.write_part", "magis.keep_part", "magis.add_part", "magis.max_part",
                  "magis.min_part", "magis.mul_part", "magis.any_part", "magis.all_part"});
  for (const char* name : {"magis.add_mm_part", "magis.add_bmm_part"}) {
    OpInfo& info = table.add(name, Purity::mutating);
    info.mutated = {0};
    info.flops = part_product_flops;
  }
}

}  // namespace magis
