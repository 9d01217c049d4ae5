package config

import (
	"errors"
	"strings"

	"github.com/spf13/pflag"

	"github.com/mooncake-go/mooncake/core/config/internal/value"
)

// NormalizeArgs turns the command line syntax of gflags into that of pflag, knowing the
// flags of fs: -flag and --flag are the same, --noflag is --flag=false for a boolean one,
// dashes and underscores in names are the same, -- ends the flags. Shorthands such as -o
// json and arguments are left as they are. args is not changed.
func NormalizeArgs(args []string, fs *pflag.FlagSet) []string {
	out := make([]string, 0, len(args))
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			return append(out, args[i:]...)
		}
		normal, takesNext := normalizeArg(arg, fs)
		out = append(out, normal)
		if takesNext && i+1 < len(args) {
			i++
			out = append(out, args[i])
		}
	}
	return out
}

// normalizeArg returns one argument, and whether the next is its value.
func normalizeArg(arg string, fs *pflag.FlagSet) (string, bool) {
	if len(arg) < 2 || arg[0] != '-' {
		return arg, false
	}
	name, text, hasText := strings.Cut(strings.TrimPrefix(arg[1:], "-"), "=")
	if name == "" || name[0] == '-' {
		return arg, false
	}
	switch name {
	case "helpfull", "helpshort": //nolint:misspell // gflags' spelling
		return "--help", false
	}
	if f := fs.Lookup(name); f != nil {
		normal := "--" + f.Name
		if hasText {
			return normal + "=" + text, false
		}
		return normal, f.NoOptDefVal == ""
	}
	if positive, ok := strings.CutPrefix(name, "no"); ok && !hasText {
		if f := fs.Lookup(positive); f != nil && f.Value.Type() == "bool" {
			return "--" + f.Name + "=false", false
		}
	}
	if arg[1] == '-' || name[0] == 'h' {
		return arg, false
	}
	f := fs.ShorthandLookup(name[:1])
	if f == nil {
		return "-" + arg, false // so that the error names the whole flag
	}
	return arg, len(name) == 1 && !hasText && f.NoOptDefVal == ""
}

// FlagError turns an error of fs.Parse into a Problem that names the nearest flag. It is
// for cobra's SetFlagErrorFunc.
func FlagError(fs *pflag.FlagSet, err error) error {
	if err == nil || errors.Is(err, pflag.ErrHelp) {
		return err
	}
	p := &Problem{Origin: Origin{Layer: LayerFlag, Name: "on the command line"}, Reason: err.Error(), Hint: "--help lists the flags"}
	var unknown *pflag.NotExistError
	var missing *pflag.ValueRequiredError
	switch {
	case errors.As(err, &unknown):
		name, dashes := unknown.GetSpecifiedName(), "--"
		if letters := unknown.GetSpecifiedShortnames(); letters != "" {
			name, _, _ = strings.Cut(letters, "=") // One dash, before what may be the whole name of a flag.
			dashes = "-"
		}
		p.Origin.Name, p.Reason = dashes+name, "unknown flag"
		if near := nearestFlag(fs, name); near != "" {
			p.Hint = "did you mean --" + near + "?"
		}
	case errors.As(err, &missing):
		p.Origin.Name, p.Reason = "--"+missing.GetSpecifiedName(), "needs a value"
		p.Hint = "write --" + missing.GetSpecifiedName() + "=VALUE"
	}
	return Problems{p}
}

// Nearest returns the candidate that name is most likely a misspelling of, empty where none is
// near.
func Nearest(name string, candidates []string) string { return value.Nearest(name, candidates) }

func nearestFlag(fs *pflag.FlagSet, name string) string {
	var names []string
	fs.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	fs.VisitAll(func(f *pflag.Flag) {
		if f.Hidden && f.Deprecated == "" {
			names = append(names, f.Name) // After those that have an effect: of equally near ones the first counts.
		}
	})
	if len(name) == 1 {
		return "" // A letter is near to every other one.
	}
	if near := value.Nearest(name, names); near != "" {
		return near
	}
	if positive, ok := strings.CutPrefix(name, "no"); ok {
		return value.Nearest(positive, names)
	}
	return ""
}

// ParseArgs registers the flags of role on a new set and parses args in gflags' or
// pflag's syntax. It returns the set, for Options.Flags, and the arguments that are not
// flags.
func ParseArgs(role Role, args []string) (*pflag.FlagSet, []string, error) {
	fs := pflag.NewFlagSet(string(role), pflag.ContinueOnError)
	fs.Usage = func() {}
	RegisterFlags(fs, role)
	if err := fs.Parse(NormalizeArgs(args, fs)); err != nil {
		return nil, nil, FlagError(fs, err)
	}
	return fs, fs.Args(), nil
}
