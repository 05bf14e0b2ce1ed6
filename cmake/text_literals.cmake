# text_literals(PATH VARIABLE): the text of a file as C++ raw string literals that follow each other, in pieces, for a
# compiler need not take a literal of more than 64 KiB.
function(text_literals path variable)
  file(READ ${path} text)
  string(LENGTH "${text}" length)
  set(literals "")
  set(at 0)
  while(at LESS length)
    string(SUBSTRING "${text}" ${at} 12000 piece)
    string(APPEND literals "R\"PERGOLA~(${piece})PERGOLA~\"\n")
    math(EXPR at "${at} + 12000")
  endwhile()
  set(${variable} "${literals}" PARENT_SCOPE)
endfunction()
