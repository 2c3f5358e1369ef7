#include "magis/graph/op_table.h"

#include <array>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "graph/op_table_builder.h"
#include "magis/base/error.h"

namespace magis {
namespace {

using Entries = std::map<std::string, OpInfo, std::less<>>;

Entries make_entries() {
  OpTableBuilder table;
  for (auto* add_family :
       {add_arithmetic, add_activations, add_comparisons, add_matmuls, add_convolutions, add_norms,
        add_attention, add_reductions, add_views, add_movers, add_gathers, add_pools, add_losses,
        add_random, add_factories, add_recurrent, add_spectral, add_mutating, add_loops}) {
    add_family(table);
  }
  return table.take();
}

const Entries& entries() {
  static const Entries table = make_entries();
  return table;
}

Entries make_random_forms() {
  Entries forms;
  for (const auto& [name, info] : entries()) {
    if (info.dropout_argument < 0) continue;
    OpInfo form = info;
    form.purity = Purity::random;
    form.in_place = {};
    forms.emplace(name, std::move(form));
  }
  return forms;
}

// "aten.add.Tensor" -> "aten.add" and ".Tensor"; "aten.mm" -> "aten.mm" and "".
std::pair<std::string_view, std::string_view> split_overload(std::string_view name) {
  const std::size_t operator_dot = name.find('.');
  const std::size_t overload_dot =
      operator_dot == std::string_view::npos ? operator_dot : name.find('.', operator_dot + 1);
  if (overload_dot == std::string_view::npos) return {name, {}};
  return {name.substr(0, overload_dot), name.substr(overload_dot)};
}

OpInfo unknown_operator(std::string_view name) {
  OpInfo info;
  info.name = std::string(name);
  const std::string_view without_overload = split_overload(name).first;
  // PyTorch's convention: a trailing underscore writes to the first argument; two are a Python
  // method (`__and__`).
  if (without_overload.ends_with('_') && !without_overload.ends_with("__")) {
    info.purity = Purity::mutating;
    info.mutated = {0};
  }
  return info;
}

// Entries made on first sight; they live as long as the process.
class UnknownOperators {
 public:
  const OpInfo& find_or_add(std::string_view name) {
    {
      std::shared_lock lock(mutex_);
      const auto found = entries_.find(name);
      if (found != entries_.end()) return found->second;
    }
    std::unique_lock lock(mutex_);
    return entries_.try_emplace(std::string(name), unknown_operator(name)).first->second;
  }

 private:
  std::shared_mutex mutex_;
  Entries entries_;
};

}  // namespace

std::string_view to_text(Purity purity) {
  static constexpr std::array<std::string_view, 5> kNames = {"pure", "random", "mutating", "view",
                                                             "opaque"};
  return kNames[static_cast<std::size_t>(purity)];
}

const OpInfo& op_info(std::string_view name) {
  const auto found = entries().find(name);
  if (found != entries().end()) return found->second;
  static UnknownOperators unknown;
  return unknown.find_or_add(name);
}

const OpInfo& random_form(const OpInfo& info) {
  static const Entries forms = make_random_forms();
  const auto found = forms.find(info.name);
  MAGIS_CHECK(found != forms.end(), info.name << " has no dropout argument");
  return found->second;
}

std::vector<const OpInfo*> known_operators() {
  std::vector<const OpInfo*> known;
  for (const auto& [name, info] : entries()) known.push_back(&info);
  return known;
}

std::string to_text(const OpInfo& info) {
  std::string text = info.name + " " + std::string(to_text(info.purity));
  const auto append_positions = [&](const std::vector<int>& positions) {
    for (std::size_t i = 0; i < positions.size(); ++i) {
      text += (i == 0 ? " " : ",") + std::to_string(positions[i]);
    }
  };
  if (!info.mutated.empty()) {
    text += " writes";
    append_positions(info.mutated);
  }
  if (info.dropout_argument >= 0) {
    text += " draws unless argument " + std::to_string(info.dropout_argument) + " is 0";
  }
  if (!info.in_place.spelling.empty()) {
    text += " in-place " + info.in_place.spelling;
    if (!info.in_place.out_argument.empty()) text += "(" + info.in_place.out_argument + "=)";
    text += " over";
    append_positions(info.in_place.operands);
    if (info.in_place.exclusive) text += " exclusive";
  }
  if (info.flops != nullptr) text += " flops";
  if (info.scratch != nullptr) text += " scratch";
  return text;
}

OpInfo& OpTableBuilder::add(std::string_view name, Purity purity) {
  const auto [entry, is_new] = entries_.try_emplace(std::string(name));
  MAGIS_CHECK(is_new, name << " has two entries");
  entry->second.name = entry->first;
  entry->second.purity = purity;
  return entry->second;
}

OpGroup OpTableBuilder::of(Names names) {
  OpGroup group;
  for (std::string_view name : names) {
    const auto found = entries_.find(name);
    MAGIS_CHECK(found != entries_.end(), name << " has no entry");
    group.add(found->second);
  }
  return group;
}

OpGroup OpTableBuilder::pure(Names names) {
  OpGroup group;
  for (std::string_view name : names) group.add(add(name, Purity::pure));
  return group;
}

OpGroup OpTableBuilder::random(Names names) {
  OpGroup group;
  for (std::string_view name : names) group.add(add(name, Purity::random));
  return group;
}

void OpTableBuilder::view(Names names) {
  for (std::string_view name : names) add(name, Purity::view);
}

void OpTableBuilder::mutating(Names names, std::vector<int> positions) {
  for (std::string_view name : names) add(name, Purity::mutating).mutated = positions;
}

OpGroup OpTableBuilder::in_place(Names names, std::vector<int> operands) {
  OpGroup group;
  for (std::string_view name : names) {
    const auto [without_overload, overload] = split_overload(name);
    std::string spelling(without_overload);
    spelling += '_';
    spelling += overload;
    OpInfo& info = add(name, Purity::pure);
    info.in_place = {.spelling = std::move(spelling), .out_argument = {}, .operands = operands};
    group.add(info);
  }
  return group;
}

OpGroup OpTableBuilder::in_place_exclusive(Names names) {
  OpGroup group = in_place(names);
  for (std::string_view name : names) entries_.find(name)->second.in_place.exclusive = true;
  return group;
}

void OpTableBuilder::writes_over_first(std::string_view name) {
  OpInfo& info = entries_.find(name)->second;
  info.in_place = {.spelling = std::string(name) + "_",
                   .out_argument = {},
                   .operands = {0},
                   .exclusive = true,
                   .wide_on_cpu = true};
}

OpGroup OpTableBuilder::in_place_as(std::string_view name, std::string_view spelling) {
  OpInfo& info = add(name, Purity::pure);
  info.in_place = {.spelling = std::string(spelling), .out_argument = {}, .operands = {0}};
  OpGroup group;
  group.add(info);
  return group;
}

OpGroup OpTableBuilder::in_place_out(std::string_view name, std::string_view spelling,
                                     std::string_view out_argument, std::vector<int> operands) {
  OpInfo& info = add(name, Purity::pure);
  info.in_place = {.spelling = std::string(spelling),
                   .out_argument = std::string(out_argument),
                   .operands = std::move(operands)};
  OpGroup group;
  group.add(info);
  return group;
}

}  // namespace magis
