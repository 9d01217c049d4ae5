package config

import (
	"errors"
	"regexp"
	"strconv"
	"strings"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// ExitUsage is the exit code of a process that was configured wrongly.
const ExitUsage = 2

// Problem is one thing that is wrong with the configuration. It carries
// errs.InvalidParams.
type Problem struct {
	// Origin is where the value was given.
	Origin Origin
	// Key is the setting, empty where the origin names it or no single one is meant.
	Key string
	// Value is what was given, redacted where it may be a secret; nil where the problem
	// is not about a value.
	Value *string
	// Reason says what is wrong and what is allowed, Hint what to do.
	Reason string
	Hint   string
}

// Error formats "origin: key = value: reason; hint".
func (p *Problem) Error() string {
	var b strings.Builder
	b.WriteString(p.Origin.String())
	if p.Key != "" {
		b.WriteString(": " + p.Key)
	}
	if p.Value != nil {
		b.WriteString(" = " + strconv.Quote(*p.Value))
	}
	b.WriteString(": " + p.Reason)
	if p.Hint != "" {
		b.WriteString("; " + p.Hint)
	}
	return b.String()
}

// As lets errors.As and errs.CodeOf see the code of the public API.
func (p *Problem) As(target any) bool {
	e, ok := target.(**errs.Error)
	if ok {
		*e = &errs.Error{Code: errs.InvalidParams, Class: errs.ClassPermanent, Err: errors.New(p.Error())}
	}
	return ok
}

// Problems are all that is wrong, in the order it was found; never empty.
type Problems []*Problem

// Error lists the problems, one a line.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the problems.
func (ps Problems) Unwrap() []error {
	out := make([]error, len(ps))
	for i, p := range ps {
		out[i] = p
	}
	return out
}

// IsUsage reports whether err says that the process was configured or called wrongly, so
// that it should end with ExitUsage.
func IsUsage(err error) bool {
	var p *Problem
	return errors.As(err, &p)
}

// Warning is something that is accepted and does not do what its author may expect.
type Warning struct {
	Origin Origin
	// Name is the setting as it was spelled.
	Name string
	Text string
}

// String formats the warning for a person.
func (w Warning) String() string {
	if w.Origin.Name == "" {
		return w.Origin.String() + ": " + w.Name + " " + w.Text
	}
	return w.Origin.String() + " " + w.Text
}

// Layer is where a value can come from, in rising order of precedence.
type Layer uint8

// The layers.
const (
	LayerDefault Layer = iota
	LayerPlugin
	LayerFile
	LayerEnv
	LayerFlag
)

// Origin is where a value came from.
type Origin struct {
	Layer Layer
	// Name is the plugin (evict/lru), the environment variable, or the flag with its two
	// dashes. In LayerDefault it is empty or says whose default it is; in LayerFile it is
	// upstream's key where that was used.
	Name string
	// File and Line are set in LayerFile; Line 0 means the file as a whole.
	File string
	Line int
	// Upstream says that Name is one of upstream's own.
	Upstream bool
}

// String prints the origin as `config show --origin` and the error messages do:
// "default", "plugin default evict/lru", "file conf.yaml:12", "env MOONCAKE_LOG_LEVEL",
// "flag --default_kv_lease_ttl (upstream name)".
func (o Origin) String() string {
	var s string
	switch o.Layer {
	case LayerPlugin:
		s = "plugin default " + o.Name
	case LayerFile:
		s = "file " + o.File
		if o.Line > 0 {
			s += ":" + strconv.Itoa(o.Line)
		}
		if o.Name != "" {
			s += " " + o.Name
		}
	case LayerEnv:
		s = "env " + o.Name
	case LayerFlag:
		s = "flag " + o.Name
	default:
		s = "default"
		if o.Name != "" {
			s += " of " + o.Name
		}
	}
	if o.Upstream {
		s += " (upstream name)"
	}
	return s
}

var (
	secretKey = regexp.MustCompile(`(?i)(password|passwd|secret|token|credential|access_?key|private_?key|api_?key)`)
	// about are settings of tokens that hold none.
	about       = regexp.MustCompile(`(?i)(^|_| |--)security[._]token(s|_issuer|_audience|_keys|_keys_ca|_keys_every|_doors)( |$)`)
	urlUserinfo = regexp.MustCompile(`(://[^/?#\s:@]*):[^/?#\s]*@`)
)

const redacted = "******"

// Redact returns the value as it may be shown: hidden where the key is named like a
// secret, without the password where it is a URL that carries one.
func Redact(key, value string) string {
	if value != "" && secretKey.MatchString(key) && !about.MatchString(key) {
		return redacted
	}
	return urlUserinfo.ReplaceAllString(value, "$1:"+redacted+"@")
}
