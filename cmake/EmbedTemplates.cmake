# moec_embed(target (function folder pattern)...): files as text inside a library.
#
# Each function returns a std::span of moec::compiler::EmbeddedFile (name relative to the folder, text), sorted by name.
# The list is taken when CMake configures and is watched; the text is read when it is built.

set(MOEC_EMBED_SCRIPT ${CMAKE_CURRENT_LIST_DIR}/EmbedFiles.cmake)

function(moec_embed target)
  set(generated)
  list(LENGTH ARGN count)
  math(EXPR last "${count} / 3 - 1")
  foreach(i RANGE ${last})
    math(EXPR at "3 * ${i}")
    list(SUBLIST ARGN ${at} 3 part)
    list(GET part 0 function)
    list(GET part 1 folder)
    list(GET part 2 pattern)
    file(GLOB_RECURSE files CONFIGURE_DEPENDS RELATIVE ${folder} ${folder}/${pattern})
    list(SORT files)
    string(MAKE_C_IDENTIFIER ${function} name)
    set(output ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp)
    # The list travels in a file, so that adding a file rebuilds the library.
    string(REPLACE ";" "\n" lines "${files}")
    file(CONFIGURE OUTPUT ${output}.list CONTENT "${lines}\n" @ONLY)
    set(depends)
    foreach(file IN LISTS files)
      list(APPEND depends ${folder}/${file})
    endforeach()
    add_custom_command(OUTPUT ${output}
      COMMAND ${CMAKE_COMMAND} -DFUNCTION=${function} -DFOLDER=${folder} -DLIST=${output}.list -DOUTPUT=${output}
              -P ${MOEC_EMBED_SCRIPT}
      DEPENDS ${depends} ${output}.list ${MOEC_EMBED_SCRIPT}
      COMMENT "Embedding ${folder}" VERBATIM)
    list(APPEND generated ${output})
  endforeach()
  add_library(${target} STATIC ${generated})
  set_target_properties(${target} PROPERTIES UNITY_BUILD OFF)
endfunction()
