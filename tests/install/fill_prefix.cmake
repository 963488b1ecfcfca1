# Empties the prefix first: a file of an earlier run must not hide one that is no longer installed.
cmake_minimum_required(VERSION 3.22)
file(REMOVE_RECURSE "${prefix}")
execute_process(COMMAND "${CMAKE_COMMAND}" --install "${build}" --prefix "${prefix}" --config
                        "${config}" RESULT_VARIABLE failed)
if(failed)
  message(FATAL_ERROR "cmake --install failed: ${failed}")
endif()
