#include "codegen/python_names.h"

#include <algorithm>

#include "codegen/python_literals.h"
#include "magis/base/error.h"

namespace magis {
namespace {

const std::string kUnread = "_";

}  // namespace

std::string_view called_operator(const Graph& graph, const Statement& run) {
  const OpInfo& info = *graph.op(run.op).info;
  return run.over < 0 ? std::string_view(info.name) : info.in_place.spelling;
}

// Averages over processes are registered with PyTorch, as torch.ops.magis.begin_average.
bool is_own_operator(std::string_view name) {
  return name.starts_with("magis.") && !name.ends_with("_average") && !name.ends_with("_average_");
}

PythonNames::PythonNames(const Graph& graph, const Program& program)
    : taken_{"_",    "torch",   "step",    "inputs",    "pack_bits",        "unpack_bits",
             "host", "to_host", "compute", "from_host", "gradient_is_final"} {
  name_operators(graph, program);
  name_inputs(graph);
  name_loops(graph);
  name_results(graph, program);
  name_swaps(graph, program);
}

std::string PythonNames::unused(std::string name) {
  while (is_python_word(name) || taken_.contains(name)) name += '_';
  taken_.insert(name);
  return name;
}

void PythonNames::name_operators(const Graph& graph, const Program& program) {
  std::set<std::string> called;
  for (const Statement& statement : program.statements) {
    if (statement.kind != Statement::Kind::run) continue;
    const std::string_view name = called_operator(graph, statement);
    if (!is_own_operator(name)) called.emplace(name);
  }
  for (const std::string& name : called) {
    std::string python = name;
    std::ranges::replace(python, '.', '_');
    operators_[name] = unused(python);
  }
}

void PythonNames::name_inputs(const Graph& graph) {
  for (const Input& input : graph.inputs()) {
    const Value& value = graph.value(input.value);
    std::string name = unused(value.name);
    if (input.kind == InputKind::scalar) {
      scalars_[input.value] = std::move(name);
    } else {
      copies_[{value.tensor, 0}] = std::move(name);
    }
  }
}

void PythonNames::name_loops(const Graph& graph) {
  for (const Loop& loop : graph.loops()) {
    LoopNames names{unused(loop.name), ""};
    if (!loop.is_even()) names.length = unused(loop.name + "_length");
    loops_.push_back(std::move(names));
  }
}

void PythonNames::name_results(const Graph& graph, const Program& program) {
  std::set<CopyRef> read;
  for (const Output& output : graph.outputs()) read.insert({graph.value(output.value).tensor, 0});
  for (const Statement& statement : program.statements) {
    // An await alone keeps a copy, too.
    if (statement.kind != Statement::Kind::free) {
      read.insert(statement.copies.begin(), statement.copies.end());
    }
    if (statement.kind != Statement::Kind::run) continue;
    const auto reads = graph.reads(statement.op);
    for (std::size_t i = 0; i < reads.size(); ++i) {
      read.insert({reads[i], statement.operand_copies[i]});
    }
  }
  for (const bool originals : {true, false}) {  // a copy must not take an original's name
    for (const CopyRef& copy : read) {
      const Tensor& tensor = graph.tensor(copy.tensor);
      if (tensor.is_input || (copy.copy == 0) != originals) continue;
      const std::string& name = graph.value(tensor.value).name;
      copies_[copy] = unused(originals ? name : name + "_" + std::to_string(copy.copy));
    }
  }
}

void PythonNames::name_swaps(const Graph& graph, const Program& program) {
  for (const Statement& statement : program.statements) {
    const bool stores = statement.kind == Statement::Kind::store;
    if (!stores && statement.kind != Statement::Kind::load) continue;
    for (const CopyRef& copy : statement.copies) {
      if (stores) {
        on_host_[copy.tensor] = unused(graph.value(graph.tensor(copy.tensor).value).name + "_host");
      }
      arrivals_[copy] = unused(of(copy) + (stores ? "_stored" : "_loaded"));
    }
  }
}

const std::string& PythonNames::of(CopyRef copy) const {
  const auto found = copies_.find(copy);
  return found == copies_.end() ? kUnread : found->second;
}

std::vector<std::pair<std::string, std::string>> PythonNames::operators() const {
  std::vector<std::pair<std::string, std::string>> bound;
  for (const auto& [name, python] : operators_) bound.emplace_back(python, name);
  return bound;
}

}  // namespace magis
