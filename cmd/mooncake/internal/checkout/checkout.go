// Package checkout finds the sources of this project on this machine.
package checkout

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/mod/modfile"
)

const (
	// Core is the path of the module with the programs.
	Core = "github.com/mooncake-go/mooncake"
	// SDK is the path of the module that plugins depend on.
	SDK = Core + "/sdk"
)

// Module reads the go.mod of a folder.
func Module(dir string) (*modfile.File, error) {
	name := filepath.Join(dir, "go.mod")
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("there is no Go module in %s: %w", dir, err)
	}
	mod, err := modfile.ParseLax(name, text, nil)
	if err != nil {
		return nil, err
	}
	if mod.Module == nil {
		return nil, fmt.Errorf("%s names no module", name)
	}
	return mod, nil
}

// Is reports whether a folder holds the module of this path.
func Is(dir, path string) bool {
	mod, err := Module(dir)
	return err == nil && mod.Module.Mod.Path == path
}

// Find returns the folder of the checkout that the working directory or the program is in.
func Find(program string) (dir string, found bool) {
	starts := []string{filepath.Dir(program)}
	if wd, err := os.Getwd(); err == nil {
		starts = append([]string{wd}, starts...)
	}
	for _, start := range starts {
		for at := start; ; at = filepath.Dir(at) {
			if Is(at, Core) {
				return at, true
			}
			if at == filepath.Dir(at) {
				break
			}
		}
	}
	return "", false
}
