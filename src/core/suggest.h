// "did you mean": the nearest known name, for error messages.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace plimsoll {

// The candidate with the least edit distance (insert, delete, replace, swap of neighbours) if that
// is at most a third of the word's length (at least 1); ties go to the first. O(|word| * sum
// |candidate|).
std::optional<std::string> find_similar(std::string_view word,
                                        std::span<const std::string> candidates);

// "did you mean 'x'?" if a similar name exists, or up to four names contain the word; else "known:
// a, b, c" (the first 16, then "..."); empty without candidates.
std::string suggest(std::string_view word, std::span<const std::string> candidates);

}  // namespace plimsoll
