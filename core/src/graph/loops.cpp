#include "graph/loops.h"

#include <algorithm>

#include "graph/draws.h"
#include "magis/base/error.h"
#include "magis/graph/builder.h"

namespace magis {

bool is_word(std::string_view name) {
  const auto is_letter = [](char c) {
    return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  };
  return !name.empty() && is_letter(name[0]) &&
         std::ranges::all_of(name, [&](char c) { return is_letter(c) || (c >= '0' && c <= '9'); });
}

std::optional<Loop> read_loop_begin(const Operator& op) {
  const bool has_shapes = op.args.size() == 5;
  if ((op.args.size() != 4 && !has_shapes) || !op.kwargs.empty()) return std::nullopt;
  if (has_shapes && !std::holds_alternative<ArgList>(op.args[4].value)) return std::nullopt;
  const auto* name = std::get_if<std::string>(&op.args[0].value);
  const auto* part = std::get_if<int64_t>(&op.args[1].value);
  if (name == nullptr || part == nullptr || !std::holds_alternative<ArgList>(op.args[3].value)) {
    return std::nullopt;
  }
  Loop loop;
  loop.name = *name;
  loop.part = *part;
  if (const auto* length = std::get_if<int64_t>(&op.args[2].value)) {
    loop.length = {*length, {}, *length};
  } else if (const auto* follows = std::get_if<PartLength>(&op.args[2].value)) {
    loop.length = *follows;
  } else {
    return std::nullopt;
  }
  return loop;
}

std::optional<std::string> read_loop_end(const Operator& op) {
  if (op.args.size() != 3 || !op.kwargs.empty()) return std::nullopt;
  const auto* name = std::get_if<std::string>(&op.args[0].value);
  if (name == nullptr || !std::holds_alternative<ArgList>(op.args[1].value) ||
      !std::holds_alternative<ArgList>(op.args[2].value)) {
    return std::nullopt;
  }
  return *name;
}

std::vector<LoopId> loops_around(const Graph& graph, OpId op) {
  std::vector<LoopId> around;
  for (LoopId loop = graph.loop_of(op); loop.valid(); loop = graph.loop(loop).parent) {
    around.push_back(loop);
  }
  std::ranges::reverse(around);
  return around;
}

// ---- while a graph is built

LoopId GraphBuilder::find_open_loop(std::string_view name) const {
  LoopId loop = open_loop_;
  while (loop.valid() && graph_.loop(loop).name != name) loop = graph_.loop(loop).parent;
  return loop;
}

bool GraphBuilder::is_loop_result(const Value& value) const {
  return value.kind == ValueKind::result && value.producer.valid() &&
         graph_.op(value.producer).info->name == kLoopBegin;
}

PartLength GraphBuilder::part_length(int64_t coefficient, std::vector<LoopId> loops) const {
  int64_t value = coefficient;
  for (const LoopId loop : loops) value *= graph_.loop(loop).part;
  return {coefficient, std::move(loops), value};
}

void GraphBuilder::track_loops(const Operator& op, OpId id) {
  LoopId bounded;
  if (op.info->name == kLoopBegin) {
    std::optional<Loop> loop = read_loop_begin(op);
    MAGIS_CHECK(loop.has_value(), "a magis.begin of another form");
    graph_.loop_of_.push_back(open_loop_);
    loop->parent = open_loop_;
    loop->begin = id;
    bounded = open_loop_ = graph_.loops_.push_back(*std::move(loop));
  } else if (op.info->name == kLoopEnd) {
    MAGIS_CHECK(open_loop_.valid() && read_loop_end(op) == loop(open_loop_).name, "magis.end");
    bounded = open_loop_;
    graph_.loops_[bounded].end = id;
    open_loop_ = graph_.loops_[bounded].parent;
    graph_.loop_of_.push_back(open_loop_);
  } else {
    graph_.loop_of_.push_back(open_loop_);
  }
  graph_.bounded_loop_.push_back(bounded);
}

// ---- the rules

namespace {

class LoopRules {
 public:
  explicit LoopRules(const Graph& graph) : graph_(graph) {}

  std::optional<std::string> violation() {
    for (std::size_t i = 0; i < graph_.op_count(); ++i) check(OpId(i));
    for (const Output& output : graph_.outputs()) {
      check_part_lengths(output.value, {}, "an output");
      check_scope(output.value, LoopId(), "an output");
    }
    for (std::size_t l = 0; l < graph_.loops().size(); ++l) {
      check_lists(LoopId(l));
      check_writes(LoopId(l));
    }
    return problem_;
  }

 private:
  void fail(const std::string& message) {
    if (!problem_) problem_ = message;
  }
  std::string name(ValueId id) const { return "%" + graph_.value(id).name; }
  std::string name(OpId op) const { return "%" + graph_.name(op); }

  bool is_inside(LoopId inner, LoopId outer) const {
    while (inner.valid() && inner != outer) inner = graph_.loop(inner).parent;
    return inner == outer;
  }
  // Whose iterations a tensor belongs to; a loop's results belong to the loop around it.
  LoopId scope(TensorId tensor) const {
    const OpId producer = graph_.tensor(tensor).producer;
    return producer.valid() ? graph_.loop_of(producer) : LoopId();
  }

  void check(OpId op) {
    const Operator& call = graph_.op(op);
    const LoopId bounded = graph_.bounded_loop(op);
    const Purity purity = call.info->purity;
    const LoopId loop = graph_.loop_of(op);
    if (loop.valid() && draws_or_may_draw(*call.info)) {
      fail(name(op) + ": " + call.info->name + " cannot run in parts of " + graph_.loop(loop).name);
    }
    for_each_value(call, [&](ValueId id) {
      check_part_lengths(id, loop, name(op));
      check_scope(id, loop, name(op));
    });
    check_lengths(call, loop, name(op));
    if (purity != Purity::mutating || bounded.valid()) return;
    check_form(op);
    for_each_value(call.args.front(), [&](ValueId id) { check_written(op, id); });
  }

  // The forms that code generation relies on.
  void check_form(OpId op) {
    const Operator& call = graph_.op(op);
    if (!call.info->name.starts_with("magis.") || call.info->purity != Purity::mutating) return;
    const bool is_slice = call.info->name == "magis.write_part";
    const bool is_product = call.info->name.ends_with("mm_part");
    const std::size_t count = is_slice ? 4 : is_product ? 3 : 2;
    const bool sliced = !is_slice || (call.args.size() == count && is_slice_length(call.args[2]));
    const bool paired = call.info->name != "magis.add_parts" ||
                        (call.args.size() == count && are_pairs(call.args[0], call.args[1]));
    if (call.args.size() != count || !call.kwargs.empty() || !sliced || !paired) {
      fail(name(op) + ": " + call.info->name + " is not written so");
    }
  }
  static bool are_pairs(const Arg& wholes, const Arg& parts) {
    const auto are_values = [](const Arg& arg) {
      const auto* list = std::get_if<ArgList>(&arg.value);
      return list != nullptr && !list->empty() && std::ranges::all_of(*list, [](const Arg& item) {
               return std::holds_alternative<ValueId>(item.value);
             });
    };
    return are_values(wholes) && are_values(parts) &&
           std::get<ArgList>(wholes.value).size() == std::get<ArgList>(parts.value).size();
  }
  static bool is_slice_length(const Arg& arg) {
    const auto* length = std::get_if<PartLength>(&arg.value);
    return length != nullptr && !length->loops.empty();
  }

  void check_written(OpId op, ValueId written) {
    const TensorId tensor = graph_.value(written).tensor;
    const LoopId loop = graph_.loop_of(op);
    const bool is_input = graph_.tensor(tensor).is_input;
    if (!loop.valid() && is_input) return;
    const OpId producer = graph_.tensor(tensor).producer;
    if (is_input || !loop.valid() || graph_.loop(loop).begin != producer) {
      fail(name(op) + " writes to " + name(written) + ", which is no result of the loop around it");
    }
  }

  // Part lengths in an operator's arguments, and in the views through which it reads `id`.
  void check_lengths(const Call& call, LoopId loop, const std::string& reader) {
    const auto visit = [&](const auto& self, const Arg& arg) -> void {
      if (const auto* list = std::get_if<ArgList>(&arg.value)) {
        for (const Arg& item : *list) self(self, item);
      }
      const auto* length = std::get_if<PartLength>(&arg.value);
      if (length == nullptr) return;
      for (const LoopId named : length->loops) {
        if (is_inside(loop, named)) continue;
        fail(reader + " depends on the part of " + graph_.loop(named).name + " outside that loop");
      }
    };
    for (const Arg& arg : call.args) visit(visit, arg);
    for (const auto& [keyword, arg] : call.kwargs) visit(visit, arg);
  }
  void check_part_lengths(ValueId id, LoopId loop, const std::string& reader) {
    for (const Value* value = &graph_.value(id); value->kind == ValueKind::view;
         value = &graph_.value(value->base)) {
      const Call& view = graph_.view(*value);
      check_lengths(view, loop, reader);
      if (view.info->name == kPart && (view.args.size() != 3 || !is_slice_length(view.args[2]))) {
        fail("%" + value->name + ": magis.part takes a tensor, a dimension and a part length");
      }
    }
  }

  void check_scope(ValueId id, LoopId loop, const std::string& reader) {
    const TensorId tensor = graph_.value(id).tensor;
    if (!tensor.valid() || is_inside(loop, scope(tensor))) return;
    fail(reader + " reads " + name(id) + ", which is made anew in every part of " +
         graph_.loop(scope(tensor)).name);
  }

  // The reads of begin and end are what the body reads of tensors made outside, in any order; the
  // results are the begin's, and nothing inside reads them.
  void check_lists(LoopId id) {
    const Loop& loop = graph_.loop(id);
    check_shapes(loop);
    std::vector<TensorId> read;
    for (std::size_t i = static_cast<std::size_t>(loop.begin.index) + 1;
         i < static_cast<std::size_t>(loop.end.index); ++i) {
      for (const TensorId tensor : graph_.reads(OpId(i))) {
        const OpId producer = graph_.tensor(tensor).producer;
        if (!producer.valid() || is_inside(graph_.loop_of(producer), id)) continue;
        if (producer != loop.begin) {
          read.push_back(tensor);
        } else if (graph_.op(OpId(i)).info->purity != Purity::mutating) {
          fail(name(OpId(i)) + " reads a result of " + loop.name + " before its end");
        }
      }
    }
    std::ranges::sort(read);
    const auto repeated = std::ranges::unique(read);
    read.erase(repeated.begin(), repeated.end());
    const Operator& end = graph_.op(loop.end);
    if (listed(graph_.op(loop.begin).args[3]) != read || listed(end.args[2]) != read) {
      fail("the reads of loop " + loop.name + " are not the tensors that its body reads");
    }
    std::vector<TensorId> made(graph_.makes(loop.begin).begin(), graph_.makes(loop.begin).end());
    if (listed(end.args[1]) != made) {
      fail("the end of " + loop.name + " does not name the results of its begin");
    }
  }

  // Each result gets its parts from one operator of the body.
  void check_writes(LoopId id) {
    const Loop& loop = graph_.loop(id);
    for (const TensorId made : graph_.makes(loop.begin)) {
      int writers = 0;
      for (const EdgeId use : graph_.uses(made)) {
        const OpId op = graph_.edge_op(use);
        writers += graph_.loop_of(op) == id && !graph_.bounded_loop(op).valid() ? 1 : 0;
      }
      if (writers != 1) {
        fail("%" + graph_.value(graph_.tensor(made).value).name + " is written by " +
             std::to_string(writers) + " operators of loop " + loop.name + ", not by one");
      }
    }
  }

  // Where results of an inner loop follow the part of an outer one, their shapes say so.
  void check_shapes(const Loop& loop) {
    const Operator& begin = graph_.op(loop.begin);
    if (begin.args.size() != 5) return;
    const auto& shapes = std::get<ArgList>(begin.args[4].value);
    bool fits = shapes.size() == begin.results.size();
    for (std::size_t r = 0; fits && r < shapes.size(); ++r) {
      Shape shape;
      const auto* lengths = std::get_if<ArgList>(&shapes[r].value);
      fits = lengths != nullptr;
      for (std::size_t d = 0; fits && d < lengths->size(); ++d) {
        shape.push_back(integer_value((*lengths)[d]).value_or(-1));
      }
      fits = fits && shape == graph_.value(begin.results[r]).type.shape;
    }
    if (!fits) fail("the shapes of loop " + loop.name + " are not those of its results");
  }

  std::vector<TensorId> listed(const Arg& list) const {
    std::vector<TensorId> tensors;
    for_each_value(list, [&](ValueId id) { tensors.push_back(graph_.value(id).tensor); });
    std::ranges::sort(tensors);
    return tensors;
  }

  const Graph& graph_;
  std::optional<std::string> problem_;
};

}  // namespace

std::optional<std::string> loop_violation(const Graph& graph) {
  if (graph.loops().empty()) return std::nullopt;
  return LoopRules(graph).violation();
}

}  // namespace magis
