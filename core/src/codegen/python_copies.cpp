#include "codegen/python_copies.h"

#include <algorithm>
#include <iterator>

#include "codegen/python_expressions.h"
#include "codegen/python_literals.h"

namespace magis {
namespace {

std::string wait_event(const std::string& stream, const std::string& event) {
  return stream + ".wait_event(" + event + ")";
}

void append(std::vector<std::string>& lines, std::vector<std::string> more) {
  std::ranges::move(more, std::back_inserter(lines));
}

bool stores_any(const Program& program) {
  return std::ranges::any_of(program.statements, [](const Statement& statement) {
    return statement.kind == Statement::Kind::store;
  });
}

}  // namespace

PythonCopies::PythonCopies(const Graph& graph, const Program& program, const PythonNames& names)
    : graph_(graph),
      program_(program),
      names_(names),
      pool_(plan_host_pool(graph, program)),
      stores_any_(stores_any(program)),
      on_streams_(graph.device().starts_with("cuda")) {}

std::vector<std::string> PythonCopies::module_lines() const {
  if (!stores_any_ || !on_streams_) return {};
  const std::string stream = "torch.cuda.Stream(device=" + python_string(graph_.device()) + ")";
  return {"# Tensors leave for the host and come back while the step computes.",
          "to_host = " + stream, "from_host = " + stream};
}

std::vector<std::string> PythonCopies::first_lines() const {
  if (!stores_any_ || !on_streams_) return {};
  return {"compute = torch.cuda.current_stream(" + python_string(graph_.device()) + ")"};
}

std::vector<std::string> PythonCopies::lines(std::size_t statement) {
  const Statement& moved = program_.statements[statement];
  std::vector<std::string> lines;
  for (const CopyRef& copy : moved.copies) {
    if (moved.kind == Statement::Kind::store) append(lines, store(copy));
    if (moved.kind == Statement::Kind::load) append(lines, load(copy, statement));
    if (moved.kind == Statement::Kind::await) append(lines, wait_for(copy));
  }
  return lines;
}

std::vector<std::string> PythonCopies::last_lines() const {
  std::vector<std::string> lines;
  for (const auto& [copy, way] : on_their_way_) lines.push_back(wait_event("compute", way.event));
  return lines;
}

std::vector<std::string> PythonCopies::store(CopyRef copy) {
  const Tensor& tensor = graph_.tensor(copy.tensor);
  const std::string& from = names_.of(copy);
  const Bytes begin = pool_.offsets[copy.tensor];
  const std::string slot =
      "host[" + std::to_string(begin) + ":" + std::to_string(begin + tensor.bytes) + "]";
  const std::string dtype(torch_word(graph_.value(tensor.value).type.dtype));
  std::vector<std::string> lines = {"# " + from + " leaves for the host"};
  // Its own shape and strides: the last part of a loop may be shorter than the type says.
  append(lines,
         call_lines(names_.on_host(copy.tensor), {slot + ".view(torch." + dtype + ").as_strided",
                                                  {from + ".shape", from + ".stride()"},
                                                  ""}));
  append(lines, copy_bytes(copy, true));
  return lines;
}

std::vector<std::string> PythonCopies::load(CopyRef copy, std::size_t statement) {
  const std::string& host = names_.on_host(copy.tensor);
  const std::string dtype(torch_word(graph_.value(graph_.tensor(copy.tensor).value).type.dtype));
  const std::string reader = reader_of(copy, statement);
  std::vector<std::string> lines = {"# " + names_.of(copy) + " comes back from the host" +
                                    (reader.empty() ? "" : " for " + reader)};
  append(lines,
         call_lines(names_.of(copy), {"torch.empty_strided",
                                      {host + ".shape", host + ".stride()", "dtype=torch." + dtype,
                                       "device=" + python_string(graph_.device())},
                                      ""}));
  append(lines, copy_bytes(copy, false));
  return lines;
}

std::vector<std::string> PythonCopies::copy_bytes(CopyRef copy, bool to_host) {
  const std::string& on_device = names_.of(copy);
  const std::string& on_host = names_.on_host(copy.tensor);
  const std::string begin =
      to_host ? on_host + ".copy_(" + on_device : on_device + ".copy_(" + on_host;
  if (!on_streams_) return {begin + ")"};
  const std::string stream = to_host ? "to_host" : "from_host";
  // What is copied has been computed, what is copied over is no longer in use.
  std::vector<std::string> lines = {stream + ".wait_stream(compute)"};
  for (const auto& [other, way] : on_their_way_) {
    if (other.tensor == copy.tensor && way.to_host) lines.push_back(wait_event(stream, way.event));
  }
  const std::string& event = names_.of_arrival(copy);
  append(lines, {"with torch.cuda.stream(" + stream + "):", "    " + begin + ", non_blocking=True)",
                 event + " = " + stream + ".record_event()"});
  on_their_way_[copy] = {to_host, event};
  return lines;
}

std::vector<std::string> PythonCopies::wait_for(CopyRef copy) {
  const auto found = on_their_way_.find(copy);
  if (found == on_their_way_.end()) return {};
  const std::string line = wait_event("compute", found->second.event);
  on_their_way_.erase(found);
  return {line};
}

std::string PythonCopies::reader_of(CopyRef copy, std::size_t after) const {
  for (std::size_t s = after + 1; s < program_.statements.size(); ++s) {
    const Statement& run = program_.statements[s];
    if (run.kind != Statement::Kind::run) continue;
    const auto reads = graph_.reads(run.op);
    for (std::size_t i = 0; i < reads.size(); ++i) {
      if (copy == CopyRef{reads[i], run.operand_copies[i]}) {
        return graph_.name(run.op);
      }
    }
  }
  return "";
}

}  // namespace magis
