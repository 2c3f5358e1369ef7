#include "transform/rules/split_channels.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "magis/graph/builder.h"
#include "magis/graph/view_type.h"
#include "transform/rules/term_reading.h"

namespace magis {
namespace {

constexpr int64_t kChannels = 1;  // the dimension of images that counts them

// Where the arguments of convolution and of its backward stand.
struct Form {
  std::size_t input, weight, transposed, groups;
};
constexpr Form kForward = {0, 1, 6, 8};
constexpr Form kBackward = {1, 2, 7, 9};
constexpr std::size_t kBias = 2, kBiasSizes = 3, kMask = 10;

ValueId operand(const Term& term, std::size_t at) {
  return std::get<ValueId>(term.args.at(at).value);
}

bool is_transposed(const Term& term, const Form& form) {
  return std::get<bool>(term.args.at(form.transposed).value);
}

bool has_one_group(const Term& term, const Form& form) {
  return integer_value(term.args.at(form.groups)) == 1;
}

int64_t channels(const TermGraph& terms, ValueId images) {
  return terms.type(images).shape[kChannels];
}

// The items of a concatenation of channels, all contiguous; nothing if `images` is none.
std::optional<std::vector<ValueId>> items_of(const TermGraph& terms, ValueId images) {
  const TermId producer = terms.producer(images);
  if (!producer.valid() || terms.term(producer).info->name != "aten.cat") return std::nullopt;
  const Term& cat = terms.term(producer);
  if (concatenated_dim(terms, cat) != kChannels || !is_contiguous(terms.type(images))) {
    return std::nullopt;
  }
  std::vector<ValueId> items;
  for (const Arg& item : std::get<ArgList>(cat.args.front().value)) {
    items.push_back(std::get<ValueId>(item.value));
    const Type& type = terms.type(items.back());
    const bool fits = type.dtype == terms.type(images).dtype && is_contiguous(type) &&
                      type.shape.size() == terms.type(images).shape.size();
    if (!fits || terms.is_overwritten(items.back())) return std::nullopt;
  }
  if (items.size() < 2) return std::nullopt;
  return items;
}

// Terms that are made to take the place of others: all of them, or none.
class Exchange {
 public:
  Exchange(TermGraph& terms, TermId instead_of) : terms_(terms), instead_of_(instead_of) {}

  std::vector<ValueId> add(Call call, std::vector<Type> types, std::vector<std::string> names) {
    const auto some = std::ranges::find_if(types, &Type::defined) - types.begin();
    std::vector<ValueId> results =
        terms_.add(std::move(call), std::move(types), instead_of_, std::move(names));
    made_.push_back(results[static_cast<std::size_t>(some)]);
    return results;
  }

  ValueId add(Call call, const Type& type, const std::string& name) {
    made_.push_back(terms_.add(std::move(call), type, instead_of_, name));
    return made_.back();
  }

  ValueId slice(ValueId whole, int64_t dim, int64_t begin, int64_t end) {
    Call call{.info = &op_info("aten.slice.Tensor"), .args = {{whole}, {dim}, {begin}, {end}}};
    const Type type = std::get<Type>(derive_view(call, terms_.type(whole)));
    return add(std::move(call), type, terms_.name(whole) + "_channels");
  }

  void replace(ValueId from, ValueId to) { replaced_.emplace_back(from, to); }

  bool finish() {
    const auto may = [&](const auto& pair) { return terms_.can_replace(pair.first, pair.second); };
    if (std::ranges::all_of(replaced_, may)) {
      for (const auto& [from, to] : replaced_) terms_.replace(from, to);
      return true;
    }
    for (auto made = made_.rbegin(); made != made_.rend(); ++made) terms_.drop_unused(*made);
    return false;
  }

 private:
  TermGraph& terms_;
  TermId instead_of_;
  std::vector<ValueId> made_;
  std::vector<std::pair<ValueId, ValueId>> replaced_;
};

class ChannelRule : public RewriteRule {
 public:
  using RewriteRule::RewriteRule;
  bool splits() const override { return true; }
};

class ConvolutionOfConcatenation : public ChannelRule {
 public:
  ConvolutionOfConcatenation()
      : ChannelRule({.name = "convolution_of_concatenation",
                     .description = "a convolution of channels side by side is a sum of "
                                    "convolutions",
                     .wide = true}) {}

  std::vector<RuleMatch> find(const TermGraph& terms, TermId anchor) const override {
    const Term& term = terms.term(anchor);
    if (term.dead || term.info != anchors().front() || is_transposed(term, kForward) ||
        !has_one_group(term, kForward)) {
      return {};
    }
    const ValueId images = operand(term, kForward.input);
    const Type& type = terms.type(term.results.front());
    if ((type.dtype != DType::f32 && type.dtype != DType::f64) || !is_contiguous(type) ||
        terms.is_overwritten(operand(term, kForward.weight)) || !items_of(terms, images)) {
      return {};
    }
    return {{.rule = this,
             .anchor = anchor,
             .terms = {anchor, terms.producer(images)},
             .roots = term.results}};
  }

  bool apply(TermGraph& terms, const RuleMatch& match) const override {
    const Term whole = terms.term(match.anchor);
    const ValueId result = whole.results.front();
    const Type type = terms.type(result);
    Exchange exchange(terms, match.anchor);
    ValueId sum;
    int64_t begin = 0;
    const std::vector<ValueId> items = *items_of(terms, operand(whole, kForward.input));
    for (ValueId item : items) {
      const int64_t end = begin + channels(terms, item);
      Call call = whole;
      call.args[kForward.input] = {item};
      call.args[kForward.weight] = {
          exchange.slice(operand(whole, kForward.weight), kChannels, begin, end)};
      if (sum.valid()) call.args[kBias] = {};  // added once
      const ValueId part = exchange.add(std::move(call), type, terms.name(result) + "_channels");
      sum = sum.valid()
                ? exchange.add({.info = &op_info("aten.add.Tensor"), .args = {{sum}, {part}}}, type,
                               terms.name(result) + "_sum")
                : part;
      begin = end;
    }
    exchange.replace(result, sum);
    return exchange.finish();
  }

  std::vector<const OpInfo*> anchors() const override { return {&op_info("aten.convolution")}; }
  Reach reach() const override { return {.below = 1}; }
};

// Slices along the channels that are all that reads `images`, if they do not overlap.
std::optional<std::vector<TermId>> channel_slices(const TermGraph& terms, ValueId images) {
  if (terms.is_output(images)) return std::nullopt;
  std::vector<TermId> slices;
  std::vector<std::pair<int64_t, int64_t>> covered;
  for (TermId reader : terms.readers(images)) {
    const Term& term = terms.term(reader);
    if (term.info->name != "aten.slice.Tensor") return std::nullopt;
    const std::optional<Slice> slice = slice_of(terms, term);
    if (!slice || slice->dim != kChannels || slice->end <= slice->begin) return std::nullopt;
    slices.push_back(reader);
    covered.emplace_back(slice->begin, slice->end);
  }
  std::ranges::sort(covered);
  for (std::size_t i = 1; i < covered.size(); ++i) {
    if (covered[i].first < covered[i - 1].second) return std::nullopt;
  }
  if (slices.empty()) return std::nullopt;
  return slices;
}

class SlicesOfConvolution : public ChannelRule {
 public:
  SlicesOfConvolution()
      : ChannelRule({.name = "slices_of_convolution",
                     .description = "channels of a convolution, sliced, are convolutions with "
                                    "slices of its weight"}) {}

  std::vector<RuleMatch> find(const TermGraph& terms, TermId anchor) const override {
    const Term& term = terms.term(anchor);
    if (term.dead || term.info != anchors().front() || !has_one_group(term, kForward)) return {};
    const ValueId result = term.results.front();
    const auto slices = channel_slices(terms, result);
    const bool changes = terms.is_overwritten(operand(term, kForward.input)) ||
                         terms.is_overwritten(operand(term, kForward.weight));
    if (!slices || changes || !is_contiguous(terms.type(result))) return {};
    RuleMatch match{.rule = this, .anchor = anchor, .terms = {anchor}};
    for (TermId slice : *slices) {
      match.terms.push_back(slice);
      match.roots.push_back(terms.term(slice).results.front());
    }
    return {match};
  }

  bool apply(TermGraph& terms, const RuleMatch& match) const override {
    const Term whole = terms.term(match.anchor);
    // [in, out, ...] if transposed
    const int64_t dim = is_transposed(whole, kForward) ? 1 : 0;
    Exchange exchange(terms, match.anchor);
    for (std::size_t s = 1; s < match.terms.size(); ++s) {
      const Slice slice = *slice_of(terms, terms.term(match.terms[s]));
      const ValueId from = match.roots[s - 1];
      Call call = whole;
      call.args[kForward.weight] = {
          exchange.slice(operand(whole, kForward.weight), dim, slice.begin, slice.end)};
      if (const auto* bias = std::get_if<ValueId>(&whole.args[kBias].value)) {
        call.args[kBias] = {exchange.slice(*bias, 0, slice.begin, slice.end)};
      }
      const Type type = contiguous_type(terms.type(from).dtype, terms.type(from).shape);
      exchange.replace(from,
                       exchange.add(std::move(call), type, terms.name(from) + "_convolution"));
    }
    return exchange.finish();
  }

  std::vector<const OpInfo*> anchors() const override { return {&op_info("aten.convolution")}; }
  Reach reach() const override { return {.above = 1}; }
};

class GradientsOfConcatenation : public ChannelRule {
 public:
  GradientsOfConcatenation()
      : ChannelRule({.name = "gradients_of_concatenation",
                     .description = "derivatives by channels side by side are derivatives by each "
                                    "of them"}) {}

  std::vector<RuleMatch> find(const TermGraph& terms, TermId anchor) const override {
    const Term& term = terms.term(anchor);
    if (term.dead || term.info != anchors().front() || is_transposed(term, kBackward) ||
        !has_one_group(term, kBackward) || terms.is_overwritten(operand(term, kBackward.weight)) ||
        terms.is_overwritten(operand(term, 0))) {
      return {};
    }
    const ValueId images = operand(term, kBackward.input);
    const auto items = items_of(terms, images);
    if (!items) return {};
    RuleMatch match{.rule = this, .anchor = anchor, .terms = {anchor, terms.producer(images)}};
    if (asks_for(term, 0) && !slices_by_item(terms, term.results[0], *items, match)) return {};
    for (std::size_t r : {1, 2}) {
      if (asks_for(term, r)) match.roots.push_back(term.results[r]);
    }
    return {match};
  }

  bool apply(TermGraph& terms, const RuleMatch& match) const override {
    const Term whole = terms.term(match.anchor);
    const std::vector<ValueId> items = *items_of(terms, operand(whole, kBackward.input));
    Exchange exchange(terms, match.anchor);
    ArgList of_weight;
    int64_t begin = 0;
    for (std::size_t i = 0; i < items.size(); ++i) {
      const int64_t end = begin + channels(terms, items[i]);
      const std::vector<ValueId> made = add_part(exchange, terms, whole, items[i], {begin, end});
      of_weight.push_back({made[1]});
      if (i == 0 && asks_for(whole, 2)) exchange.replace(whole.results[2], made[2]);
      if (asks_for(whole, 0)) replace_slices(exchange, terms, whole.results[0], begin, made[0]);
      begin = end;
    }
    if (asks_for(whole, 1)) {
      const ValueId weight = whole.results[1];
      Call cat{.info = &op_info("aten.cat"), .args = {{std::move(of_weight)}, {kChannels}}};
      exchange.replace(weight, exchange.add(std::move(cat), terms.type(weight),
                                            terms.name(weight) + "_channels"));
    }
    return exchange.finish();
  }

  std::vector<const OpInfo*> anchors() const override {
    return {&op_info("aten.convolution_backward")};
  }
  Reach reach() const override { return {.below = 1, .above = 1}; }

 private:
  static bool asks_for(const Term& term, std::size_t result) {
    const auto& mask = std::get<ArgList>(term.args.at(kMask).value);
    return std::get<bool>(mask.at(result).value);
  }

  // Everything that reads the gradient of all channels takes out those of one item.
  static bool slices_by_item(const TermGraph& terms, ValueId gradient,
                             const std::vector<ValueId>& items, RuleMatch& match) {
    const auto slices = channel_slices(terms, gradient);
    if (!slices) return false;
    for (TermId id : *slices) {
      const Slice slice = *slice_of(terms, terms.term(id));
      int64_t begin = 0;
      const auto is_slice = [&](ValueId item) {
        const int64_t from = std::exchange(begin, begin + channels(terms, item));
        return slice.begin == from && slice.end == begin;
      };
      if (std::ranges::none_of(items, is_slice)) return false;
      match.terms.push_back(id);
      match.roots.push_back(terms.term(id).results.front());
    }
    return true;
  }

  // The derivatives by channels from `range`, which `item` is; those by the bias with the first.
  static std::vector<ValueId> add_part(Exchange& exchange, const TermGraph& terms,
                                       const Term& whole, ValueId item,
                                       std::pair<int64_t, int64_t> range) {
    const bool first = range.first == 0;
    Call call = whole;
    call.args[kBackward.input] = {item};
    const ValueId weight =
        exchange.slice(operand(whole, kBackward.weight), kChannels, range.first, range.second);
    call.args[kBackward.weight] = {weight};
    if (!first) {
      auto& mask = std::get<ArgList>(call.args[kMask].value);
      mask[2] = {false};
    }
    const auto like = [&](ValueId value, std::size_t result) {
      if (!asks_for(whole, result)) return Type{.defined = false};
      return contiguous_type(terms.type(value).dtype, terms.type(value).shape);
    };
    std::vector<std::string> names;
    for (ValueId result : whole.results) names.push_back(terms.name(result) + "_channels");
    return exchange.add(std::move(call),
                        {like(item, 0), like(weight, 1),
                         first ? terms.type(whole.results[2]) : Type{.defined = false}},
                        std::move(names));
  }

  static void replace_slices(Exchange& exchange, const TermGraph& terms, ValueId gradient,
                             int64_t begin, ValueId now) {
    for (TermId reader : terms.readers(gradient)) {
      if (slice_of(terms, terms.term(reader))->begin != begin) continue;
      exchange.replace(terms.term(reader).results.front(), now);
    }
  }
};

}  // namespace

std::vector<std::unique_ptr<RewriteRule>> make_channel_rules() {
  std::vector<std::unique_ptr<RewriteRule>> rules;
  rules.push_back(std::make_unique<ConvolutionOfConcatenation>());
  rules.push_back(std::make_unique<SlicesOfConvolution>());
  rules.push_back(std::make_unique<GradientsOfConcatenation>());
  return rules;
}

}  // namespace magis
