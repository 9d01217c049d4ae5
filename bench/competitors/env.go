package competitors

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Env is where things are. Fill it with NewEnv.
type Env struct {
	// Root is the checkout, Programs the folder with the programs of this project, Self the
	// program that measures, which also plays the drivers in Go.
	Root, Programs, Self string
	// Python is an interpreter; Upstream is the environment that has the wheel, whose interpreter
	// both packages run with where it is there.
	Python, Upstream string
	// Folder is for files of this run; the caller removes it.
	Folder string
	// Log receives what the processes write, nil for none.
	Log io.Writer

	environ []string
}

// NewEnv completes an Env: programs and paths are made absolute and looked for. What is missing
// of this project is an error; what is missing of a peer shows where the peer is started.
func NewEnv(e Env) (*Env, error) {
	for _, p := range []*string{&e.Root, &e.Programs, &e.Self, &e.Upstream, &e.Folder} {
		abs, err := filepath.Abs(*p)
		if err != nil {
			return nil, err
		}
		*p = abs
	}
	var missing []error
	for path, target := range map[string]string{
		filepath.Join(e.Programs, "mooncake_master"):                   "make build",
		filepath.Join(e.Root, "sdk", "python", "mooncake", "store.py"): "git checkout",
		filepath.Join(e.Root, "sdk", "python", "mooncake", lib):        "make pydev",
	} {
		if _, err := os.Stat(path); err != nil {
			missing = append(missing, fmt.Errorf("%w; run: %s", err, target))
		}
	}
	python, err := exec.LookPath(e.Python)
	if err != nil {
		missing = append(missing, err)
	}
	e.Python = python
	if wheel := filepath.Join(e.Upstream, "bin", "python"); e.upstreamReason() == "" {
		e.Python = wheel
	}
	e.environ = clean(os.Environ())
	return &e, errors.Join(missing...)
}

// lib is what `make pydev` builds.
const lib = "libmooncake.so"

// Scope returns an empty set of processes. Close it.
func (e *Env) Scope() *Scope { return &Scope{env: e} }

// clean leaves out the settings of pools: both sides run with their defaults.
func clean(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(kv string) bool {
		for _, p := range []string{"MOONCAKE_", "MC_", "PYTHONPATH=", "GOMAXPROCS=", "GOGC=", "GOMEMLIMIT="} {
			if strings.HasPrefix(kv, p) {
				return true
			}
		}
		return false
	})
}
