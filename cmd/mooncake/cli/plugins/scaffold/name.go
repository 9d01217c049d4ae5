package scaffold

import (
	"go/token"
	"slices"
	"strings"

	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// imported are names that the files of a module use for packages or functions, and which
// its own package must not take.
var imported = []string{
	"alloc", "alloctest", "binary", "bytes", "cmp", "conformance", "context", "crc32", "damage", "defaults", "errors", "errs", "evict",
	"evicttest", "failed", "filepath", "fmt", "fs", "init", "io", "iter", "json", "keep", "list", "main", "maps", "net", "open",
	"options", "os", "pathkit", "plugin", "policy", "queue", "rand", "same", "serve", "shm", "slices", "slog", "sort", "space", "strings",
	"sync", "syscall", "testing", "tier", "tiertest", "time", "transport", "transporttest", "unix", "unsafe", "wire", "wiretest",
}

// predeclared are the names that Go itself has. The table is here because go/types, which has it
// too, is a compiler's front end, and would be in every program for this list.
var predeclared = []string{
	"any", "append", "bool", "byte", "cap", "clear", "close", "comparable", "complex", "complex128", "complex64", "copy", "delete", "error",
	"false", "float32", "float64", "imag", "int", "int16", "int32", "int64", "int8", "iota", "len", "make", "max", "min", "new", "nil",
	"panic", "print", "println", "real", "recover", "rune", "string", "true", "uint", "uint16", "uint32", "uint64", "uint8", "uintptr",
}

// packageName makes the name of the Go package: the plugin's name without dashes, with the
// kind behind it where that is no name for a package here.
func packageName(id plugin.ID) string {
	name := strings.ReplaceAll(id.Name, "-", "")
	if token.IsKeyword(name) || slices.Contains(predeclared, name) || slices.Contains(imported, name) || strings.HasSuffix(name, "test") {
		name += id.Kind
	}
	return name
}
