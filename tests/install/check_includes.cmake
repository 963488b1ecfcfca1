# Public headers include the standard library, tl::expected and each other, and includes point one way through the
# rooms: core, then topology, then the planners, then check, then what shows answers to people. check sees no search,
# but for the judge of what balanced plans claim.
cmake_minimum_required(VERSION 3.22)

set(core_may_include core)
set(topology_may_include core topology)
set(embedding_may_include core topology solve embedding)
set(solve_may_include core solve)
set(checkpoint_may_include core topology solve checkpoint)
set(partition_may_include core topology solve partition)
set(check_may_include core topology solve embedding checkpoint partition check)
set(report_may_include core topology solve embedding checkpoint partition check report)
set(io_may_include core topology solve embedding checkpoint partition check report io)
set(searches enumerator planner proposer partitioner frontier_search milp_search pipeline_search sac_milp
             unit_milp fsdp_milp knapsack policy_per_module contiguous_split
             balanced_placement bound_placement throughput latency_search plan_pipeline)
# Of the target check_balance, which judges what balanced plans claim: docs/decisions/0003-proofs.md.
set(sees_planner include/plimsoll/check/bill_check.h src/check/bound_attempt.cc)
set(public_third_party tl/expected.hpp)

file(GLOB_RECURSE files RELATIVE "${root}" "${root}/include/plimsoll/*.h" "${root}/src/*.h"
     "${root}/src/*.cc")
if(NOT files)
  message(FATAL_ERROR "nothing found below ${root}")
endif()

foreach(file IN LISTS files)
  string(REGEX MATCH "^(include/plimsoll|src)/([a-z_]+)/" _ "${file}")
  set(room "${CMAKE_MATCH_2}")
  string(COMPARE EQUAL "${CMAKE_MATCH_1}" "include/plimsoll" is_public)
  if(NOT DEFINED ${room}_may_include)
    message(SEND_ERROR "${file}: \"${room}\" is no room that check_includes.cmake knows")
    continue()
  endif()
  file(STRINGS "${root}/${file}" includes REGEX "^[ \t]*#[ \t]*include")
  foreach(include IN LISTS includes)
    if(include MATCHES "\"(plimsoll/)?([a-z_]+)/([a-z_0-9]+)\\.h\"")
      if(NOT CMAKE_MATCH_2 IN_LIST ${room}_may_include)
        message(SEND_ERROR "${file}: ${include}: ${room} must not include ${CMAKE_MATCH_2}")
      elseif(room STREQUAL "check" AND CMAKE_MATCH_3 IN_LIST searches AND NOT file IN_LIST
                                                                            sees_planner)
        message(SEND_ERROR "${file}: ${include}: check must not see a search")
      elseif(is_public AND NOT CMAKE_MATCH_1)
        message(SEND_ERROR "${file}: ${include}: a public header must not include a private one")
      endif()
    elseif(is_public)
      # Headers of the standard library have neither a folder nor a suffix.
      string(REGEX REPLACE ".*[<\"]([^>\"]+)[>\"].*" "\\1" name "${include}")
      if(NOT name MATCHES "^[a-z_0-9]+$" AND NOT name IN_LIST public_third_party)
        message(SEND_ERROR "${file}: ${include}: a public header must not include ${name}")
      endif()
    endif()
  endforeach()
endforeach()
