module extant/example

go 1.19
