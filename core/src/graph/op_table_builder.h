// How the operator table is written: one function per family of operators, each in its own
// ops_*.cpp.
#pragma once

#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "magis/graph/axes.h"
#include "magis/graph/op_table.h"

namespace magis {

// The entries that one statement adds, to say what they have in common.
class OpGroup {
 public:
  using AxisRule = std::optional<AxisSignature> (*)(const Graph&, const Operator&);

  void add(OpInfo& info) { entries_.push_back(&info); }
  // How they split: a notation (graph/axes_builder.h) or a rule (graph/axes_families.h).
  void axes(std::string_view notation) {
    for (OpInfo* info : entries_) info->axes = notation;
  }
  void axes(const char* notation) { axes(std::string_view(notation)); }
  void axes(AxisRule rule) {
    for (OpInfo* info : entries_) info->axis_rule = rule;
  }

 private:
  std::vector<OpInfo*> entries_;
};

class OpTableBuilder {
 public:
  // A name may be added once.
  OpInfo& add(std::string_view name, Purity purity);

  using Names = std::initializer_list<std::string_view>;
  // Entries added before.
  OpGroup of(Names names);
  OpGroup pure(Names names);
  OpGroup random(Names names);
  void view(Names names);
  // Operators that write to the arguments at `positions`.
  void mutating(Names names, std::vector<int> positions = {0});
  // Pure operators with an op_ form: "aten.add.Tensor" runs in place as "aten.add_.Tensor".
  OpGroup in_place(Names names, std::vector<int> operands = {0});
  // The same for kernels that are not elementwise.
  OpGroup in_place_exclusive(Names names);
  // An entry that is there already has an op_ form that is not elementwise, over its first
  // argument.
  void writes_over_first(std::string_view name);
  // One whose op_ form is not named after it; it overwrites the first argument.
  OpGroup in_place_as(std::string_view name, std::string_view spelling);
  // A pure operator with a form that writes to the keyword `out_argument`.
  OpGroup in_place_out(std::string_view name, std::string_view spelling,
                       std::string_view out_argument, std::vector<int> operands);

  std::map<std::string, OpInfo, std::less<>> take() { return std::move(entries_); }

 private:
  std::map<std::string, OpInfo, std::less<>> entries_;
};

void add_arithmetic(OpTableBuilder& table);
void add_activations(OpTableBuilder& table);
void add_comparisons(OpTableBuilder& table);
void add_matmuls(OpTableBuilder& table);
void add_convolutions(OpTableBuilder& table);
void add_norms(OpTableBuilder& table);
void add_attention(OpTableBuilder& table);
void add_reductions(OpTableBuilder& table);
void add_views(OpTableBuilder& table);
void add_movers(OpTableBuilder& table);
void add_gathers(OpTableBuilder& table);
void add_pools(OpTableBuilder& table);
void add_losses(OpTableBuilder& table);
void add_random(OpTableBuilder& table);
void add_factories(OpTableBuilder& table);
void add_recurrent(OpTableBuilder& table);
void add_spectral(OpTableBuilder& table);
void add_mutating(OpTableBuilder& table);
void add_loops(OpTableBuilder& table);

}  // namespace magis
