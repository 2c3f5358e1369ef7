// The notation of signatures: parsing it, and matching it with the shapes of one call.
#include <cctype>
#include <map>
#include <set>

#include "graph/axes_builder.h"
#include "magis/graph/builder.h"

namespace magis {
namespace {

struct Term {  // one letter of a pattern, or '.'
  char letter;
  bool star;
};
using Pattern = std::vector<Term>;

enum class EntryKind : uint8_t { tensor, lengths, other };

struct Entry {
  EntryKind kind = EntryKind::tensor;
  bool broadcasts = false;
  bool added_once = false;
  bool contiguous = false;
  Pattern dims;
  Pattern summed;       // of results
  Pattern independent;  // of results
};

struct Notation {
  std::vector<Entry> operands;
  std::vector<Entry> results;
};

bool is_axis(char letter) { return std::isalpha(static_cast<unsigned char>(letter)) != 0; }
bool is_splittable(char letter) { return std::islower(static_cast<unsigned char>(letter)) != 0; }

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  while (true) {
    const std::size_t end = text.find(separator);
    std::string_view piece = text.substr(0, end);
    while (piece.starts_with(' ')) piece.remove_prefix(1);
    while (piece.ends_with(' ')) piece.remove_suffix(1);
    pieces.push_back(piece);
    if (end == std::string_view::npos) return pieces;
    text.remove_prefix(end + 1);
  }
}

// Reads letters and stars from the front of `text`.
Pattern take_terms(std::string_view& text) {
  Pattern terms;
  while (!text.empty() && (is_axis(text.front()) || text.front() == '.')) {
    terms.push_back({text.front(), false});
    text.remove_prefix(1);
    if (text.starts_with('*')) {
      terms.back().star = true;
      text.remove_prefix(1);
    }
  }
  return terms;
}

std::optional<Entry> parse_operand(std::string_view text) {
  Entry entry;
  if (text == "_") {
    entry.kind = EntryKind::other;
    return entry;
  }
  if (text.starts_with('[') && text.ends_with(']')) {
    text = text.substr(1, text.size() - 2);
    entry.kind = EntryKind::lengths;
  }
  for (; !text.empty(); text.remove_prefix(1)) {
    if (text.front() == '!') {
      entry.added_once = true;
    } else if (text.front() == '~') {
      entry.broadcasts = true;
    } else if (text.front() == '#') {
      entry.contiguous = true;
    } else {
      break;
    }
  }
  entry.dims = take_terms(text);
  return text.empty() ? std::optional(entry) : std::nullopt;
}

std::optional<Entry> parse_result(std::string_view text) {
  Entry entry;
  entry.dims = take_terms(text);
  while (text.starts_with('+') || text.starts_with('=')) {
    Pattern& axes = text.front() == '+' ? entry.summed : entry.independent;
    text.remove_prefix(1);
    const Pattern named = take_terms(text);
    axes.insert(axes.end(), named.begin(), named.end());
  }
  return text.empty() ? std::optional(entry) : std::nullopt;
}

std::optional<Notation> parse(std::string_view text) {
  const std::size_t arrow = text.find("->");
  if (arrow == std::string_view::npos) return std::nullopt;
  Notation notation;
  for (std::string_view piece : split(text.substr(0, arrow), ',')) {
    const std::optional<Entry> entry = parse_operand(piece);
    if (!entry) return std::nullopt;
    notation.operands.push_back(*entry);
  }
  for (std::string_view piece : split(text.substr(arrow + 2), ',')) {
    const std::optional<Entry> entry = parse_result(piece);
    if (!entry) return std::nullopt;
    notation.results.push_back(*entry);
  }
  return notation;
}

// Matches the patterns with the call's shapes: first how many dimensions each starred letter
// stands for, then how long each axis is.
class Matcher {
 public:
  Matcher(const Notation& notation, const Graph& graph, const Operator& op)
      : notation_(notation), op_(op), builder_(graph, op) {}

  std::optional<AxisSignature> run() {
    if (notation_.results.size() != op_.results.size()) return std::nullopt;
    collect_shapes();
    count_stars();
    for (const auto& [dims, shape] : shapes_) add_axes(*dims, shape);
    set_rows();
    return builder_.finish();
  }

 private:
  // What the patterns have to match, except those that broadcast.
  void collect_shapes() {
    for (std::size_t i = 0; i < notation_.operands.size(); ++i) {
      const Entry& entry = notation_.operands[i];
      if (entry.kind == EntryKind::lengths) {
        shapes_.emplace_back(&entry.dims, builder_.integers(i, {}));
      } else if (const Type* type = builder_.operand(i); entry.kind == EntryKind::tensor) {
        if (type == nullptr) continue;
        if (!entry.broadcasts) shapes_.emplace_back(&entry.dims, type->shape);
      } else {
        continue;
      }
      for (Term term : entry.dims) given_.insert(term.letter);
    }
    for (std::size_t i = 0; i < notation_.results.size(); ++i) {
      if (const Type* type = builder_.result(i)) {
        shapes_.emplace_back(&notation_.results[i].dims, type->shape);
      }
    }
  }

  // A pattern with one starred letter of unknown count says how many dimensions it has.
  void count_stars() {
    for (bool changed = true; changed;) {
      changed = false;
      for (const auto& [dims, shape] : shapes_) {
        std::size_t known = 0;
        std::set<char> unknown;
        for (Term term : *dims) {
          if (!term.star) {
            ++known;
          } else if (const auto found = stars_.find(term.letter); found != stars_.end()) {
            known += found->second;
          } else {
            unknown.insert(term.letter);
          }
        }
        if (unknown.size() != 1 || *unknown.begin() == '.') continue;
        if (known > shape.size()) return builder_.fail();
        stars_[*unknown.begin()] = shape.size() - known;
        changed = true;
      }
    }
  }

  std::size_t count(Term term, std::size_t rest) const {
    if (!term.star) return 1;
    if (term.letter == '.') return rest;
    const auto found = stars_.find(term.letter);
    return found == stars_.end() ? 0 : found->second;
  }

  // Dimensions left for `.*` in a tensor of that rank.
  std::size_t rest_of(const Pattern& terms, std::size_t rank) const {
    std::size_t used = 0;
    for (Term term : terms) used += count(term, 0);
    return used < rank ? rank - used : 0;
  }

  void add_axes(const Pattern& terms, const Shape& shape) {
    std::size_t d = 0;
    for (Term term : terms) {
      const std::size_t n = count(term, rest_of(terms, shape.size()));
      if (d + n > shape.size()) return builder_.fail();
      if (is_axis(term.letter) && !axes_.contains(term.letter)) {
        const auto begin = shape.begin() + static_cast<std::ptrdiff_t>(d);
        axes_[term.letter] = builder_.add_axes({begin, begin + static_cast<std::ptrdiff_t>(n)},
                                               is_splittable(term.letter));
      }
      d += n;
    }
    if (d != shape.size()) builder_.fail();
  }

  Dims dims_of(const Pattern& terms, std::size_t rank) const {
    Dims dims;
    for (Term term : terms) {
      const auto found = axes_.find(term.letter);
      if (found != axes_.end()) {
        dims.insert(dims.end(), found->second.begin(), found->second.end());
      } else {
        dims.resize(dims.size() + count(term, rest_of(terms, rank)));
      }
    }
    return dims;
  }

  void set_rows() {
    for (std::size_t i = 0; i < notation_.operands.size(); ++i) {
      const Entry& entry = notation_.operands[i];
      const Type* type = builder_.operand(i);
      if (entry.kind == EntryKind::lengths) {
        builder_.repeats_lengths(i, dims_of(entry.dims, builder_.integers(i, {}).size()));
      } else if (entry.kind == EntryKind::tensor && type != nullptr) {
        const Dims dims = dims_of(entry.dims, type->shape.size());
        builder_.set_operand(i, entry.broadcasts ? builder_.broadcast(*type, dims) : dims);
        if (entry.added_once) builder_.add_once(i);
        if (entry.contiguous) builder_.needs_contiguous(i);
      }
    }
    for (std::size_t i = 0; i < notation_.results.size(); ++i) {
      const Type* type = builder_.result(i);
      if (type == nullptr) continue;
      // An operand is missing, and with it what a part of this axis is.
      for (Term term : notation_.results[i].dims) {
        if (is_axis(term.letter) && !given_.contains(term.letter)) builder_.fail();
      }
      builder_.set_result(i, dims_of(notation_.results[i].dims, type->shape.size()));
      builder_.combine(i, dims_of(notation_.results[i].summed, 0), Dependence::sum);
    }
  }

  const Notation& notation_;
  const Operator& op_;
  SignatureBuilder builder_;
  std::vector<std::pair<const Pattern*, Shape>> shapes_;
  std::set<char> given_;  // letters that stand in operands that there are
  std::map<char, std::size_t> stars_;
  std::map<char, Dims> axes_;
};

bool names(const Pattern& terms, char letter) {
  for (Term term : terms) {
    if (term.letter == letter) return true;
  }
  return false;
}

}  // namespace

std::optional<AxisSignature> notation_signature(const Graph& graph, const Operator& op,
                                                std::string_view text) {
  const std::optional<Notation> notation = parse(text);
  if (!notation) return std::nullopt;
  return Matcher(*notation, graph, op).run();
}

std::optional<std::string> notation_error(std::string_view text) {
  const std::optional<Notation> notation = parse(text);
  if (!notation) return "`" + std::string(text) + "` is not a notation";
  for (const Entry& operand : notation->operands) {
    for (Term term : operand.dims) {
      if (!is_splittable(term.letter)) continue;
      for (const Entry& result : notation->results) {
        if (names(result.dims, term.letter) || names(result.summed, term.letter) ||
            names(result.independent, term.letter)) {
          continue;
        }
        return "`" + std::string(text) + "` does not say how each result depends on " + term.letter;
      }
    }
  }
  return std::nullopt;
}

}  // namespace magis
