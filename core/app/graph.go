package app

import (
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"

	"go.uber.org/fx"
	"go.uber.org/fx/fxevent"

	"github.com/mooncake-go/mooncake/core/internal/ports"
)

// Graph is how a role is composed, as text and for Graphviz.
type Graph struct{ Text, Dot string }

// GraphOf builds a role without starting it. If it cannot be built, the graph has only Dot, which
// shows what failed.
func GraphOf(role ...fx.Option) (Graph, error) {
	r := &recorder{modules: []*module{{name: "the role"}}, made: map[string]*component{}}
	var dot fx.DotGraph
	app := fx.New(fx.WithLogger(func() fxevent.Logger { return r }), fx.Decorate(func(fx.Lifecycle) fx.Lifecycle { return r }),
		fx.Options(role...), fx.Supply(slog.New(slog.DiscardHandler), ports.Failer(func(error) {})), fx.Populate(&dot), fx.ErrorHook(r))
	if err := app.Err(); err != nil {
		return Graph{Dot: r.failed}, plain(err)
	}
	r.readNeeds(string(dot))
	return Graph{Text: r.text(), Dot: string(dot)}, nil
}

// recorder records the events of fx, and the hooks that modules append.
type recorder struct {
	modules []*module             // in the order of the role
	made    map[string]*component // by constructor
	running *component            // whose constructor runs
	hooks   int
	failed  string // the graph of an error, "" for an error without a graph
}

// HandleError implements fx.ErrorHandler.
func (r *recorder) HandleError(err error) { r.failed, _ = fx.VisualizeError(err) }

type module struct {
	name       string
	supplies   []string // the types of values
	components []*component
}

// component is what one constructor provides.
type component struct {
	types, needs []string
	hooks        []string
}

func (r *recorder) module(name string) *module {
	if name == "" {
		return r.modules[0]
	}
	for _, m := range r.modules {
		if m.name == name {
			return m
		}
	}
	r.modules = append(r.modules, &module{name: name})
	return r.modules[len(r.modules)-1]
}

// LogEvent implements fxevent.Logger.
func (r *recorder) LogEvent(event fxevent.Event) {
	switch e := event.(type) {
	case *fxevent.Supplied:
		m := r.module(e.ModuleName)
		m.supplies = append(m.supplies, e.TypeName)
	case *fxevent.Provided:
		if !strings.HasPrefix(e.ConstructorName, "go.uber.org/fx.") {
			c, m := &component{types: e.OutputTypeNames}, r.module(e.ModuleName)
			m.components = append(m.components, c)
			r.made[strings.TrimSuffix(e.ConstructorName, "()")] = c
		}
	case *fxevent.BeforeRun:
		r.running = r.made[strings.TrimSuffix(e.Name, "()")]
	}
}

// Append implements fx.Lifecycle.
func (r *recorder) Append(h fx.Hook) {
	r.hooks++
	what := "start and stop"
	switch {
	case h.OnStart == nil:
		what = "stop"
	case h.OnStop == nil:
		what = "start"
	}
	if r.running != nil {
		r.running.hooks = append(r.running.hooks, fmt.Sprintf("%d: %s", r.hooks, what))
	}
}

var (
	dotPackage = regexp.MustCompile(`^\t\tlabel = "(.*)";`)
	dotName    = regexp.MustCompile(`^\t\t(constructor_\d+) \[.*label="(.*)"\];`)
	dotNeed    = regexp.MustCompile(`^\t(constructor_\d+) -> "(.*)" \[(?:.*(style=dashed))?`)
)

// readNeeds takes what the constructors need from the graph of fx, which does not tell it otherwise.
func (r *recorder) readNeeds(dot string) {
	byID, pkg := map[string]*component{}, ""
	for line := range strings.SplitSeq(dot, "\n") {
		if m := dotPackage.FindStringSubmatch(line); m != nil {
			pkg = m[1]
		} else if m := dotName.FindStringSubmatch(line); m != nil {
			byID[m[1]] = r.made[pkg+"."+m[2]]
		} else if m := dotNeed.FindStringSubmatch(line); m != nil && byID[m[1]] != nil && m[2] != "fx.Lifecycle" {
			need := m[2]
			if m[3] != "" {
				need += " (optional)"
			}
			byID[m[1]].needs = append(byID[m[1]].needs, need)
		}
	}
}

// text prints the modules with what each component needs, and its hooks by their place in the order
// of the start.
func (r *recorder) text() string {
	var b strings.Builder
	modules := slices.DeleteFunc(slices.Clone(r.modules), func(m *module) bool { return len(m.supplies)+len(m.components) == 0 })
	for _, m := range modules {
		var lines [][]string // each a line with the lines below it
		for _, t := range m.supplies {
			lines = append(lines, []string{t})
		}
		for _, c := range m.components {
			part := []string{strings.Join(c.types, ", ")}
			if len(c.needs) > 0 {
				part = append(part, "needs "+strings.Join(c.needs, ", "))
			}
			for _, h := range c.hooks {
				part = append(part, "hook "+h)
			}
			lines = append(lines, part)
		}
		b.WriteString(m.name + "\n")
		for i, part := range lines {
			branch, below := "├─ ", "│  "
			if i == len(lines)-1 {
				branch, below = "└─ ", "   "
			}
			b.WriteString(branch + part[0] + "\n")
			for _, line := range part[1:] {
				b.WriteString(below + "    " + line + "\n")
			}
		}
	}
	return b.String()
}
