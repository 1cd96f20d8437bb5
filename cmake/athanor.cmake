# How every folder is built: one static library per folder of src/athanor, one test program per folder of tests.

add_library(athanor_flags INTERFACE)
target_include_directories(athanor_flags INTERFACE ${PROJECT_SOURCE_DIR}/src)
# x86-64-v2 is the oldest machine the program starts on; faster instruction sets live in object libraries
# of their own (athanor_isa_library) and are chosen at run time.
target_compile_options(athanor_flags INTERFACE -march=x86-64-v2 -ffp-contract=off -fno-math-errno
  -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Wold-style-cast -Wcast-align -Woverloaded-virtual -Werror)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 12 warns falsely about std::string and std::vector internals at -O2.
  target_compile_options(athanor_flags INTERFACE -Wno-restrict -Wno-stringop-overflow -Wno-maybe-uninitialized
    -Wno-array-bounds -Wno-free-nonheap-object -Wno-stringop-overread)
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  target_compile_options(athanor_flags INTERFACE -Wno-unknown-pragmas)  # those of g++
endif()
if(ATHANOR_SANITIZE)
  target_compile_options(athanor_flags INTERFACE -fsanitize=${ATHANOR_SANITIZE} -fno-omit-frame-pointer -g1
    -fno-sanitize-recover=all)
  target_link_options(athanor_flags INTERFACE -fsanitize=${ATHANOR_SANITIZE})
  # A third to a quarter of the processor time of GNU ld in the two links that were measured.
  find_program(LLD ld.lld)
  if(LLD AND CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    target_link_options(athanor_flags INTERFACE -fuse-ld=lld)
  endif()
endif()
# Which tell a fuzz target the ways they went.
set(fuzzed_targets base masks config control store documents data text corpus checkpoint_format checkpoint pipeline)
list(TRANSFORM fuzzed_targets PREPEND athanor_)
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
target_link_libraries(athanor_flags INTERFACE Threads::Threads)

# What most sources include is parsed once, by the first folder with these flags.
# -D CMAKE_DISABLE_PRECOMPILE_HEADERS=ON shows who forgot to include it.
function(athanor_precompile target)
  set(first athanor_base)
  if(ATHANOR_FUZZ AND NOT target IN_LIST fuzzed_targets)
    set(first athanor_tensor)
  endif()
  if(target STREQUAL first)
    target_precompile_headers(${target} PRIVATE <algorithm> <array> <cmath> <cstdint> <cstring> <fmt/core.h>
      <functional> <map> <memory> <mutex> <optional> <span> <string> <string_view> <thread> <utility> <vector>)
  else()
    target_precompile_headers(${target} REUSE_FROM ${first})
  endif()
endfunction()

# Sources of one folder are compiled several at a time: what they include and instantiate is then done once for all of
# them. So names of one file alone, too, are unlike those of the folder's other files. With more sources at a time little
# is won, and the last unit of a build would keep one processor busy alone.
# CMake's own units include sources by absolute paths, so that a compiler cache would not know them in another folder;
# these include them by relative ones. A source with options of its own stays by itself, as does one with ALONE.
function(athanor_unity target)
  if(NOT ATHANOR_UNITY)
    return()
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)  # g++ takes a source of a unit for a header
  endif()
  cmake_language(EVAL CODE "cmake_language(DEFER CALL athanor_make_units [[${target}]])")  # once all its sources are named
endfunction()

function(athanor_make_units target)
  set(unit_size 8)
  get_target_property(sources ${target} SOURCES)
  set(kept)
  set(count 0)
  set(number 0)
  set(text)
  foreach(source IN LISTS sources)
    get_source_file_property(alone ${source} ALONE)
    get_source_file_property(options ${source} COMPILE_OPTIONS)
    if(alone OR options OR NOT source MATCHES "\\.cpp$")
      list(APPEND kept ${source})
      continue()
    endif()
    cmake_path(ABSOLUTE_PATH source)
    cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/units)
    string(APPEND text "#include \"${source}\"\n")
    math(EXPR count "${count} + 1")
    if(count EQUAL unit_size)
      athanor_write_unit(${target} ${number} "${text}" unit)
      list(APPEND kept ${unit})
      math(EXPR number "${number} + 1")
      set(count 0)
      set(text)
    endif()
  endforeach()
  if(text)
    athanor_write_unit(${target} ${number} "${text}" unit)
    list(APPEND kept ${unit})
  endif()
  set_target_properties(${target} PROPERTIES SOURCES "${kept}")
endfunction()

function(athanor_write_unit target number text unit)
  set(path ${CMAKE_CURRENT_BINARY_DIR}/units/${target}_${number}.cpp)
  file(CONFIGURE OUTPUT ${path} CONTENT "${text}" @ONLY)  # leaves a file alone that says this already
  set(${unit} ${path} PARENT_SCOPE)
endfunction()

# athanor_library(NAME SOURCES a.cpp ... [DEPS folder ...] [LIBS system-library ...] [APART])
# DEPS are the folders whose headers this one may include (scripts/check_layers.sh holds the same table). APART: its
# sources are compiled one by one.
function(athanor_library name)
  cmake_parse_arguments(ARG "APART" "" "SOURCES;DEPS;LIBS" ${ARGN})
  set(target athanor_${name})
  set(deps ${ARG_DEPS})
  list(TRANSFORM deps PREPEND athanor_)
  if(ARG_SOURCES)
    add_library(${target} STATIC ${ARG_SOURCES})
    target_link_libraries(${target} PUBLIC athanor_flags ${deps} ${ARG_LIBS})
    athanor_precompile(${target})
    if(NOT ARG_APART)
      athanor_unity(${target})
    endif()
    if(ATHANOR_FUZZ AND target IN_LIST fuzzed_targets)
      target_compile_options(${target} PRIVATE -fsanitize=fuzzer-no-link)
    endif()
  else()
    add_library(${target} INTERFACE)
    target_link_libraries(${target} INTERFACE athanor_flags ${deps} ${ARG_LIBS})
  endif()
endfunction()

# athanor_isa_library(NAME ISA FLAGS SOURCES...): code compiled for one instruction set. Such files see only
# headers made for them (kernels/cpu/simd), so no inline function compiled for a new machine can be picked by
# the linker for code that runs on an old one.
set(athanor_isa_optimise -O3)
if(ATHANOR_SANITIZE)
  set(athanor_isa_optimise -O2)  # compiles in four fifths of the time
endif()
function(athanor_isa_library name isa)
  cmake_parse_arguments(ARG "" "" "FLAGS;SOURCES" ${ARGN})
  # The flags are linked after athanor_flags: the last -march is the one that holds.
  add_library(${name}_flags INTERFACE)
  target_compile_options(${name}_flags INTERFACE ${ARG_FLAGS} ${athanor_isa_optimise} -fno-exceptions -fno-rtti -fvisibility=hidden)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # g++ 12 warns of the registers that its own AVX-512 intrinsics leave undefined on purpose.
    target_compile_options(${name}_flags INTERFACE -Wno-uninitialized)
  endif()
  add_library(${name} OBJECT ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE athanor_flags ${name}_flags)
  target_compile_definitions(${name} PRIVATE ATHANOR_ISA=${isa})
endfunction()

# How code of tests is compiled and linked.
function(athanor_test_options target)
  target_link_libraries(${target} PRIVATE athanor_flags test_places test_main fmt::fmt GTest::gtest)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  # Tests are many and short: parsing GoogleTest again for each would be most of the build. Under a sanitizer their own code
  # compiles in a third of the time without optimisation; only that of the kernels' tests runs long enough to want it.
  if(ATHANOR_SANITIZE AND NOT target MATCHES "^(kernel_cases|kernels_tests|tiles_tests)$")
    target_compile_options(${target} PRIVATE -O0)
  else()
    target_compile_options(${target} PRIVATE -O1)
  endif()
  if(ATHANOR_SANITIZE MATCHES "undefined")
    # In the tests' own code these four double the time to compile; the product's has them.
    target_compile_options(${target} PRIVATE -fno-sanitize=alignment,null,object-size,vptr)
  endif()
  if(target STREQUAL "base_tests")
    target_precompile_headers(${target} PRIVATE <gmock/gmock.h> <gtest/gtest.h> <algorithm> <fmt/core.h>
      <functional> <map> <memory> <mutex> <optional> <span> <string> <thread> <vector>)
  else()
    target_precompile_headers(${target} REUSE_FROM base_tests)
  endif()
  athanor_unity(${target})
  set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
endfunction()

# The linker takes the first definition of an inline function that it meets. Under a sanitizer that should be the product's,
# which is optimised, and not that of the tests, which is not: a test of the trainer takes 18 s of processor time, not 31.
function(athanor_product_first target)
  set(open ${ARGN})
  set(found)
  while(open)
    list(POP_FRONT open next)
    string(REGEX REPLACE "^\\$<LINK_ONLY:(.*)>$" "\\1" next "${next}")
    if(next IN_LIST found OR NOT next MATCHES "^athanor_" OR NOT TARGET ${next})
      continue()
    endif()
    list(APPEND found ${next})
    get_target_property(needs ${next} INTERFACE_LINK_LIBRARIES)
    if(needs)
      list(APPEND open ${needs})
    endif()
  endwhile()
  set(files)
  foreach(library IN LISTS found)
    get_target_property(type ${library} TYPE)
    if(type STREQUAL "STATIC_LIBRARY")
      list(APPEND files $<TARGET_FILE:${library}>)
    endif()
  endforeach()
  if(files)
    target_link_options(${target} PRIVATE LINKER:--whole-archive ${files} LINKER:--no-whole-archive)
  endif()
endfunction()

# athanor_test(FOLDER [ON_DISK] SOURCES x_test.cpp ... [DEPS folder ...] [LIBS ...]): one program, FOLDER_tests. ON_DISK: its
# files lie on a disk, not in memory.
function(athanor_test folder)
  cmake_parse_arguments(ARG "ON_DISK" "" "SOURCES;DEPS;LIBS" ${ARGN})
  set(target ${folder}_tests)
  set(deps ${ARG_DEPS})
  list(TRANSFORM deps PREPEND athanor_)
  add_executable(${target} ${ARG_SOURCES})
  athanor_test_options(${target})
  target_link_libraries(${target} PRIVATE ${deps} ${ARG_LIBS})
  if(ATHANOR_SANITIZE)
    athanor_product_first(${target} ${deps})
  endif()
  if(ARG_ON_DISK)
    set(on_disk ON_DISK)
  endif()
  athanor_run_cases(${target} PREFIX ${folder}. ${on_disk})
endfunction()

# athanor_run_cases(TARGET PREFIX folder. [ON_DISK] [FILTER pattern]): tests/runner runs each case of the program, or those
# that GoogleTest's pattern chooses.
function(athanor_run_cases target)
  cmake_parse_arguments(ARG "ON_DISK" "PREFIX;FILTER" "" ${ARGN})
  set(kind gtest)
  if(ARG_ON_DISK)
    set(kind disk)
  endif()
  athanor_list_test(${kind} ${ARG_PREFIX} $<TARGET_FILE:${target}> ${ARG_FILTER})
  set_property(GLOBAL APPEND PROPERTY athanor_test_programs ${target})
endfunction()

# athanor_run_command(NAME PROGRAM ARG...): one more test, which passes with exit code 0 and is skipped with 77.
function(athanor_run_command name)
  athanor_list_test(command ${name} ${ARGN})
endfunction()

# What is named last comes first: folders that stand on all others take longest.
function(athanor_list_test)
  list(JOIN ARGN "\t" line)
  get_property(lines GLOBAL PROPERTY athanor_test_list)
  set_property(GLOBAL PROPERTY athanor_test_list "${line}\n${lines}")
endfunction()

# athanor_finish_tests(): the list for tests/runner, and a target that builds all that it names.
function(athanor_finish_tests)
  get_property(lines GLOBAL PROPERTY athanor_test_list)
  file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/tests/list.txt CONTENT "${lines}")
  get_property(programs GLOBAL PROPERTY athanor_test_programs)
  add_custom_target(test_programs DEPENDS run_tests ${programs})
endfunction()
