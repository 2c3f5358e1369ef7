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

// PyTorch's CPU kernels cast an operand of another dtype in a tensor of its own.
Bytes combining_scratch(const Graph& graph, const Operator& op) {
  const Type* result = operand_type(graph, op, 0);
  const Type* part = operand_type(graph, op, 1);
  if (result == nullptr || part == nullptr || result->dtype == part->dtype) return 0;
  return element_count(part->shape) * element_size(result->dtype);
}

}  // namespace

void add_loops(OpTableBuilder& table) {
  table.mutating({"magis.begin"}, {});
  table.mutating({"magis.end"}, {1});
  table.mutating({"magis.write_part", "magis.keep_part", "magis.max_part", "magis.min_part",
                  "magis.mul_part", "magis.any_part", "magis.all_part"});
  OpInfo& sum = table.add("magis.add_part", Purity::mutating);
  sum.mutated = {0};
  sum.scratch = combining_scratch;
  table.mutating({"magis.add_parts"});
  for (const char* name : {"magis.add_mm_part", "magis.add_bmm_part"}) {
    OpInfo& info = table.add(name, Purity::mutating);
    info.mutated = {0};
    info.flops = part_product_flops;
  }
}

}  // namespace magis
