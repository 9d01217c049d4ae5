// Package build has the verb build, which makes a program with further plugins linked in.
package build

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/checkout"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/output"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// flags are those of the verb.
type flags struct {
	with, without   []string
	core, out, lock string
	update          bool
	limit           time.Duration
	json            bool
}

// New makes the verb build.
func New(e *command.Env) *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "build",
		Short: "Build a mooncake program with further plugins linked in",
		Long: `Compiles this program again with plugins linked in that are Go modules of their own. It needs the go
command, and no checkout: modules are downloaded as the go command does it (GOPROXY, GOPRIVATE).

A plugin is MODULE[@VERSION], the newest version without one, or MODULE=PATH for sources on this machine.
MODULE may name a package within a module. The package has the function Factory, as every module
that 'mooncake plugins new' writes.

The lock file, FILE.lock, has the versions and the checksums of all modules and the release of Go. With
it the same request gives the same bytes on every machine; --update resolves the versions again. A folder
is compiled as it is, and the lock file does not have its checksum.`,
		Example: `  mooncake build --with example.com/evict-fifo@v1.2.0 -o mooncake-fifo
  mooncake build --with example.com/transport-uds=examples/transport-uds -o bin/mooncake-uds
  mooncake build --with example.com/my-lru=../my-lru --without evict/lru --core v1.4.0 -o mooncake
  GOARCH=arm64 mooncake build --with example.com/evict-fifo -o dist/mooncake-arm64 --lock build.lock`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := command.UntilInterrupted(cmd.Context())
			defer stop()
			return run(ctx, e, f)
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringArrayVar(&f.with, "with", nil, "plugin to link in: MODULE[@VERSION] or MODULE=PATH; repeatable")
	fs.StringArrayVar(&f.without, "without", nil, "built-in plugin to leave out, KIND/NAME; repeatable")
	fs.StringVarP(&f.out, "output", "o", "", "file to write")
	fs.StringVar(&f.core, "core", "", "this project's own source: a version, or the folder of a checkout (default: the version of this program, or the checkout that it is in)")
	fs.StringVar(&f.lock, "lock", "", "lock file (default: FILE.lock)")
	fs.BoolVar(&f.update, "update", false, "resolve the versions again and write a new lock file")
	fs.DurationVar(&f.limit, "timeout", 30*time.Minute, "limit for the whole build")
	fs.BoolVar(&f.json, "json", false, "print the result as JSON")
	return cmd
}

// result is what the verb prints.
type result struct {
	File   string   `json:"file"`
	SHA256 string   `json:"sha256"`
	Lock   string   `json:"lock"`
	Go     string   `json:"go"`
	Core   string   `json:"core"`
	With   []string `json:"with"`
	// Plugins are those that the program has linked in, empty if it is for another platform.
	Plugins []string `json:"plugins"`
}

func run(ctx context.Context, e *command.Env, f flags) error {
	if f.out == "" {
		return command.Usagef("there is no file to write; give -o FILE")
	}
	if f.limit <= 0 {
		return command.Usagef("--timeout is %s, must be more than 0", f.limit)
	}
	core, err := parseCore(f.core, coreVersion(e.Version), e.Program)
	if err != nil {
		return command.Usage(err)
	}
	r, err := newRequest(core, f.with, f.without)
	if err != nil {
		return command.Usage(err)
	}
	ctx, cancel := context.WithTimeout(ctx, f.limit)
	defer cancel()
	b := &builder{request: r, out: f.out, lockFile: f.lock, update: f.update, environ: e.Environ, log: e.Stderr, version: e.Version}
	for _, p := range e.Builtins {
		b.builtin = append(b.builtin, p.Manifest().ID)
	}
	res, err := b.build(ctx)
	if err != nil {
		return err
	}
	format := output.Text
	if f.json {
		format = output.JSON
	}
	return output.Print(e.Stdout, format, res, res.write)
}

func (r result) write(w io.Writer) {
	fmt.Fprintf(w, "wrote %s, sha256 %s\n", r.File, r.SHA256)
	fmt.Fprintf(w, "core %s, %s, locked in %s\n", r.Core, r.Go, r.Lock)
	for _, s := range r.With {
		fmt.Fprintf(w, "linked in: %s\n", s)
	}
}

// coreVersion returns the version of this module that the running program was built of: that of its release, or
// what the go command recorded.
func coreVersion(release string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return release
	}
	if info.Main.Path == checkout.Core && !strings.Contains(info.Main.Version, "+") && info.Main.Version != "(devel)" && info.Main.Version != "" {
		return info.Main.Version
	}
	for _, d := range info.Deps {
		if d.Path == checkout.Core && d.Replace == nil {
			return d.Version
		}
	}
	return release
}

// builder builds one program.
type builder struct {
	request

	out, lockFile string
	update        bool
	environ       []string
	log           io.Writer
	version       string
	builtin       []plugin.ID
}

func (b *builder) say(format string, args ...any) { fmt.Fprintf(b.log, format+"\n", args...) }

func (b *builder) build(ctx context.Context) (res result, err error) {
	if b.out, err = filepath.Abs(b.out); err != nil {
		return res, err
	}
	if b.lockFile == "" {
		b.lockFile = b.out + ".lock"
	}
	dir, err := os.MkdirTemp("", "mooncake-build-")
	if err != nil {
		return res, err
	}
	defer os.RemoveAll(dir)
	g, err := findGo(dir, b.environ)
	if err != nil {
		return res, err
	}
	env, err := g.env(ctx, "GOVERSION", "GOOS", "GOARCH")
	if err != nil {
		return res, err
	}
	if env[1] != "linux" {
		return res, command.Usagef("GOOS is %s, and mooncake runs on linux; set GOOS=linux", env[1])
	}
	l, err := b.prepare(ctx, g, env[0])
	if err != nil {
		return res, err
	}
	if err := b.inspect(ctx, g, b.builtin); err != nil {
		return res, err
	}
	res = result{File: b.out, Lock: b.lockFile, Go: env[0], Core: l.Core, With: l.With, Plugins: []string{}}
	return res, b.compile(ctx, g, l, env[2] == runtime.GOARCH, &res)
}

// prepare writes the module, as the lock file has it if there is one.
func (b *builder) prepare(ctx context.Context, g gotool, version string) (*lock, error) {
	var had *lock
	if !b.update {
		var err error
		if had, err = readLock(b.lockFile); err != nil {
			return nil, err
		}
	}
	if had != nil {
		if err := had.allows(b.request, b.lockFile, version); err != nil {
			return nil, command.Usage(err)
		}
	}
	if err := b.files(g.dir, had); err != nil || had != nil {
		return had, err
	}
	b.say("resolving versions")
	if err := b.resolve(ctx, g); err != nil {
		return nil, err
	}
	l := &lock{Format: lockFormat, Go: version, Core: b.core.String()}
	l.With, l.Without = b.texts()
	for name, to := range map[string]*string{"go.mod": &l.GoMod, "go.sum": &l.GoSum} {
		text, err := os.ReadFile(filepath.Join(g.dir, name))
		if err != nil {
			return nil, err
		}
		*to = string(text)
	}
	return l, nil
}

// compile builds the program beside its place, tries it, and puts it and the lock file into place.
func (b *builder) compile(ctx context.Context, g gotool, l *lock, native bool, res *result) error {
	b.say("compiling")
	tmp, err := os.MkdirTemp(filepath.Dir(b.out), ".mooncake-build-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	file := filepath.Join(tmp, "mooncake")
	version := b.core.version
	if b.core.dir != "" {
		version = b.version
	}
	if _, err := g.run(ctx, nil, "build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-tags", b.tags(),
		"-ldflags", "-s -w -buildid= -X "+checkout.Core+"/cmd/mooncake/cli.version="+version, "-o", file, "."); err != nil {
		return err
	}
	if native {
		if res.Plugins, err = linkedIn(ctx, file, g.environ); err != nil {
			return err
		}
	} else {
		b.say("the program is for another platform, so it was not tried")
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(text)
	res.SHA256 = hex.EncodeToString(sum[:])
	return errors.Join(os.Rename(file, b.out), l.write(b.lockFile))
}

// trialTime bounds the run of the new program.
const trialTime = time.Minute

// linkedIn runs the new program and returns the plugins that it has linked in.
func linkedIn(ctx context.Context, file string, environ []string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, trialTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, file, "plugins", "list", "--no-live", "-o", "json")
	var stderr bytes.Buffer
	cmd.Stderr, cmd.Env, cmd.WaitDelay = &stderr, command.WithoutPool(environ), killAfter
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("the new program does not run: %w:\n%s", err, lastLines(stderr.String()))
	}
	var list []struct{ Kind, Name, Home string }
	if err := json.Unmarshal(out, &list); err != nil {
		return nil, fmt.Errorf("the new program's list of plugins: %w", err)
	}
	var ids []string
	for _, p := range list {
		if p.Home == "built-in" {
			ids = append(ids, p.Kind+"/"+p.Name)
		}
	}
	return ids, nil
}
