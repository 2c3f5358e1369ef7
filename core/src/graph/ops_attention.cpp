// Fused attention: forward two products, backward five (the scores are computed again).
#include <algorithm>

#include "graph/axes_families.h"
#include "graph/op_shapes.h"
#include "graph/op_table_builder.h"

namespace magis {
namespace {

// Two products over query [.., L, E], key [.., S, E], value [.., S, Ev]. Causal masks are not
// discounted: kernels differ in what they skip.
double products(const Type& query, const Type& key, const Type& value) {
  const double scores = elements(query) * length_from_end(key, 1);
  const double mixture = elements(query) / std::max(length_from_end(query, 0), 1.0) *
                         length_from_end(key, 1) * length_from_end(value, 0);
  return 2 * (scores + mixture);
}

template <std::size_t kQuery>
double attention_flops(const Graph& graph, const Operator& op) {
  const Type* query = operand_type(graph, op, kQuery);
  const Type* key = operand_type(graph, op, kQuery + 1);
  const Type* value = operand_type(graph, op, kQuery + 2);
  if (query == nullptr || key == nullptr || value == nullptr) return 0;
  return products(*query, *key, *value);
}

double attention_backward_flops(const Graph& graph, const Operator& op) {
  return 2.5 * attention_flops<1>(graph, op);
}

}  // namespace

void add_attention(OpTableBuilder& table) {
  struct Form {
    std::string_view name;
    int dropout_argument;
  };
  for (const Form& form :
       {Form{"aten._scaled_dot_product_flash_attention_for_cpu", 3},
        Form{"aten._scaled_dot_product_flash_attention", 3},
        Form{"aten._scaled_dot_product_efficient_attention", 5},
        Form{"aten._scaled_dot_product_cudnn_attention", 5},
        Form{"aten._scaled_dot_product_attention_math", 4},
        Form{"aten._scaled_dot_product_fused_attention_overrideable", 4},
        Form{"aten._flash_attention_forward", 7}, Form{"aten._efficient_attention_forward", 8}}) {
    OpInfo& info = table.add(form.name, Purity::pure);
    info.dropout_argument = form.dropout_argument;
    info.flops = attention_flops<0>;
  }
  for (std::string_view name :
       {"aten._scaled_dot_product_flash_attention_for_cpu_backward",
        "aten._scaled_dot_product_flash_attention_backward",
        "aten._scaled_dot_product_efficient_attention_backward",
        "aten._scaled_dot_product_cudnn_attention_backward",
        "aten._scaled_dot_product_fused_attention_overrideable_backward",
        "aten._flash_attention_backward", "aten._efficient_attention_backward"}) {
    table.add(name, Purity::pure).flops = attention_backward_flops;
  }
  table.of({"aten._scaled_dot_product_flash_attention_for_cpu"}).axes(attention_cpu);
  table.of({"aten._scaled_dot_product_flash_attention_for_cpu_backward"})
      .axes(attention_cpu_backward);
  table.of({"aten._scaled_dot_product_flash_attention"}).axes(attention_flash);
  table.of({"aten._scaled_dot_product_flash_attention_backward"}).axes(attention_flash_backward);
  table.of({"aten._scaled_dot_product_efficient_attention"}).axes(attention_efficient);
  table.of({"aten._scaled_dot_product_efficient_attention_backward"})
      .axes(attention_efficient_backward);
  table.of({"aten._scaled_dot_product_cudnn_attention"}).axes(attention_cudnn);
  table.of({"aten._scaled_dot_product_cudnn_attention_backward"}).axes(attention_cudnn_backward);
  table.pure({"aten._transform_bias_rescale_qkv"});
}

}  // namespace magis
