// The checks of style use the framework of go vet, which gorun has no other use for. So this is a module of its own.
module github.com/gorun/gorun/internal/test/style

go 1.26.0

require golang.org/x/tools v0.52.0

require (
	golang.org/x/mod v0.42.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
)
