# cmake -DBUILD=BUILD -P uninstall.cmake: removes the files that the last
# `cmake --install BUILD` and those of components have made, and folders of ours
# that are empty then. Run by the target `uninstall`.

# brackets in the path are part of its name, not of a pattern
string(REGEX REPLACE "([][*?])" "[\\1]" pattern "${BUILD}")
file(GLOB manifests "${pattern}/install_manifest*.txt")
if(NOT manifests)
  message(FATAL_ERROR "nothing was installed from ${BUILD}")
endif()
set(folders)
foreach(manifest IN LISTS manifests)
  file(STRINGS "${manifest}" files)
  foreach(file IN LISTS files)
    set(file "$ENV{DESTDIR}${file}")
    if(EXISTS "${file}" OR IS_SYMLINK "${file}")
      message(STATUS "Removing: ${file}")
      file(REMOVE "${file}")
      if(EXISTS "${file}" OR IS_SYMLINK "${file}")
        message(FATAL_ERROR "${file} cannot be removed; uninstall as the user "
          "who has installed it, with sudo perhaps")
      endif()
    endif()
    cmake_path(GET file PARENT_PATH folder)
    # only folders that are ours: PREFIX/lib stays
    while(folder MATCHES "/([Nn]abla[A-Za-z]*|[.]debug)(/|$)")
      list(APPEND folders "${folder}")
      cmake_path(GET folder PARENT_PATH folder)
    endwhile()
  endforeach()
endforeach()
file(REMOVE ${manifests})
list(REMOVE_DUPLICATES folders)
list(SORT folders ORDER DESCENDING) # the innermost first
foreach(folder IN LISTS folders)
  # fails where something else is in it, which stays
  execute_process(COMMAND rmdir "${folder}" ERROR_QUIET)
endforeach()
