#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"

namespace nb = nanobind;

namespace magis {
namespace {

struct PyStatement {
  std::string kind;  // begin and end are runs of the operators that bound a loop
  std::string op, name, over, module, source, loop;
  std::vector<std::string> copies;
  int64_t iterations = 0;
  bool backward = false;
};

std::string run_kind(const Graph& graph, OpId op) {
  const LoopId loop = graph.bounded_loop(op);
  if (!loop.valid()) return "run";
  return graph.loop(loop).begin == op ? "begin" : "end";
}

PyStatement python_run(const Graph& graph, const Statement& run) {
  const Operator& op = graph.op(run.op);
  PyStatement out;
  out.kind = run_kind(graph, run.op);
  out.op = op.info->name;
  out.name = graph.name(run.op);
  if (run.copy != 0) out.name += "." + std::to_string(run.copy);
  out.backward = op.backward;
  if (op.site.valid()) {
    out.module = graph.sites()[op.site].module;
    out.source = graph.sites()[op.site].source;
  }
  if (const LoopId loop = graph.bounded_loop(run.op); loop.valid()) {
    out.loop = graph.loop(loop).name;
    out.iterations = graph.loop(loop).iterations();
  }
  if (run.over >= 0) {
    const auto position = static_cast<std::size_t>(run.over);
    out.over =
        python_copy_name(graph, {graph.reads(run.op)[position], run.operand_copies[position]});
  }
  for (const TensorId made : graph.makes(run.op)) {
    out.copies.push_back(python_copy_name(graph, {made, run.copy}));
  }
  return out;
}

PyStatement python_statement(const Graph& graph, const Statement& statement) {
  PyStatement out;
  switch (statement.kind) {
    case Statement::Kind::run:
      return python_run(graph, statement);
    case Statement::Kind::free:
      out.kind = "free";
      break;
    case Statement::Kind::store:
      out.kind = "store";
      break;
    case Statement::Kind::load:
      out.kind = "load";
      break;
    case Statement::Kind::await:
      out.kind = "await";
      break;
  }
  for (const CopyRef& copy : statement.copies) {
    out.copies.push_back(python_copy_name(graph, copy));
  }
  return out;
}

}  // namespace

nb::list python_statements(const PyPlan& plan) {
  nb::list list;
  for (const Statement& statement : plan.program.statements) {
    list.append(python_statement(*plan.graph, statement));
  }
  return list;
}

void bind_statements(nb::module_& m) {
  nb::class_<PyStatement>(m, "Statement")
      .def_ro("kind", &PyStatement::kind)
      .def_ro("operator", &PyStatement::op)
      .def_ro("name", &PyStatement::name)
      .def_ro("over", &PyStatement::over)
      .def_ro("module", &PyStatement::module)
      .def_ro("source", &PyStatement::source)
      .def_ro("backward", &PyStatement::backward)
      .def_ro("loop", &PyStatement::loop)
      .def_ro("iterations", &PyStatement::iterations)
      .def_ro("copies", &PyStatement::copies);
}

}  // namespace magis
