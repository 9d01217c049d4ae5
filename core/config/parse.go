package config

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mooncake-go/mooncake/core/config/internal/value"
	"github.com/mooncake-go/mooncake/core/internal/masteraddr"
)

var (
	clusterRE = regexp.MustCompile(`^[0-9A-Za-z_.-]{1,128}$`)
	pluginRE  = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`)
)

// maxText bounds a value in bytes.
const maxText = 4096

// parse reads text as a value of the field's Go type. A bare number of a duration counts
// in unit. note is a warning, empty for none.
func (f field) parse(text string, unit value.Unit) (v any, note string, err error) {
	if len(text) > maxText {
		return nil, "", fmt.Errorf("must be at most %d bytes long", maxText)
	}
	if !utf8.ValidString(text) {
		return nil, "", errors.New("must be UTF-8 text")
	}
	if len(f.enum) > 0 {
		return f.parseEnum(text)
	}
	switch f.kind {
	case "bool":
		v, err = value.Bool(text)
	case "port":
		v, err = bounded(f, text, "0", "65535", wholeNumber)
	case "int":
		v, err = bounded(f, text, f.low, f.high, wholeNumber)
	case "number":
		v, err = bounded(f, text, f.low, f.high, value.Float)
	case "size":
		v, err = bounded(f, text, f.low, f.high, value.ParseSize)
	case "duration":
		v, err = bounded(f, text, f.low, f.high, func(s string) (time.Duration, error) { return value.Duration(s, unit) })
	case "list":
		v = value.List(text)
	case "plugin":
		v, err = pluginName(text)
	case "address":
		v, err = address(text)
	case "tenant":
		v, err = tenant(text)
	case "cluster":
		if v = text; !clusterRE.MatchString(text) {
			err = errors.New("must be 1 to 128 letters, digits and _ . -")
		}
	case "socket":
		v, err = socket(text)
	case "keep":
		v, err = keep(text)
	case "limit":
		v, err = goLimit(text)
	default:
		v, err = plainText(text)
	}
	return v, "", err
}

func (f field) parseEnum(text string) (any, string, error) {
	word := strings.ToLower(strings.TrimSpace(text))
	switch {
	case slices.Contains(f.enum, word):
		return word, "", nil
	case f.key == "log.level" && word == "warning":
		return "warn", "", nil
	case f.key == "log.level" && word == "trace":
		return "debug", "", nil
	case f.key == "log.level" && (word == "critical" || word == "fatal"): // names of Python's logging
		return "error", "", nil
	case f.fallback == "" && slices.Contains(f.later, word):
		return nil, "", fmt.Errorf("is not supported yet; must be one of %s", strings.Join(f.enum, ", "))
	case f.fallback == "":
		return nil, "", errors.New("must be one of " + strings.Join(f.enum, ", "))
	case slices.Contains(f.later, word):
		return f.fallback, fmt.Sprintf("asks for %q, which is not supported yet; %s is used", word, f.fallback), nil
	default:
		return f.fallback, fmt.Sprintf("asks for %q, which is not one of %s; %s is used", text, strings.Join(f.enum, ", "), f.fallback), nil
	}
}

// bounded parses text and checks the bounds, which are texts of the same form.
func bounded[T int | float64 | Size | time.Duration](f field, text, low, high string, parse func(string) (T, error)) (T, error) {
	v, err := parse(text)
	if err != nil {
		return v, err
	}
	if l, err := parse(low); low != "" && (err != nil || v < l) {
		return v, errors.New("must be " + f.bounds())
	}
	if h, err := parse(high); high != "" && (err != nil || v > h) {
		return v, errors.New("must be " + f.bounds())
	}
	return v, nil
}

// bounds says in words what is allowed, empty where anything of the kind is.
func (f field) bounds() string {
	switch {
	case len(f.enum) > 0:
		return strings.Join(f.enum, ", ")
	case f.kind == "port":
		return "from 0 to 65535"
	case f.low != "" && f.high != "":
		return "from " + f.low + " to " + f.high
	default:
		return ""
	}
}

func wholeNumber(text string) (int, error) {
	n, err := value.Int(text)
	return int(n), err
}

func pluginName(text string) (string, error) {
	name := strings.ToLower(strings.TrimSpace(text))
	if len(name) > 32 || !pluginRE.MatchString(name) {
		return "", errors.New("must be the name of a plugin: 1 to 32 lower-case letters, digits and dashes")
	}
	return name, nil
}

func plainText(text string) (string, error) {
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return "", errors.New("must not hold control characters")
	}
	return text, nil
}

// tenant reads the name of a tenant; the empty one is the default tenant.
func tenant(text string) (string, error) {
	switch {
	case text == "":
		return "default", nil
	case len(text) > 256:
		return "", errors.New("must be at most 256 bytes long")
	default:
		return plainText(text)
	}
}

// maxSocketPath is what the kernel allows for the path of a unix socket, in bytes.
const maxSocketPath = 107

// keep reads where a store keeps its memory.
func keep(text string) (string, error) {
	switch word := strings.ToLower(strings.TrimSpace(text)); {
	case word == "auto", word == "off", word == "systemd", word == "keeper":
		return word, nil
	case len(text) > 1 && len(text) <= maxSocketPath && (text[0] == '/' || text[0] == '@'):
		return plainText(text)
	default:
		return "", fmt.Errorf("must be auto, off, systemd, keeper, the absolute path of a directory or of the socket of a keeper, or @ and its abstract name, of at most %d bytes", maxSocketPath)
	}
}

// goLimit reads how much memory the Go runtime may take.
func goLimit(text string) (string, error) {
	word := strings.ToLower(strings.TrimSpace(text))
	if word == limitAuto || word == limitOff {
		return word, nil
	}
	n, err := value.ParseSize(text)
	if err != nil || n < leastLimit || n > 1<<20*TiB {
		return "", fmt.Errorf("must be %s, %s or a size from %s", limitAuto, limitOff, leastLimit)
	}
	return n.String(), nil
}

// socket reads whether there is a socket, or its path.
func socket(text string) (string, error) {
	switch word := strings.ToLower(strings.TrimSpace(text)); {
	case word == SocketAuto, word == SocketOn, word == SocketOff:
		return word, nil
	case !strings.HasPrefix(text, "/"), strings.HasSuffix(text, "/"), len(text) > maxSocketPath:
		return "", fmt.Errorf("must be %s, %s, %s, or an absolute path of at most %d bytes", SocketAuto, SocketOn, SocketOff, maxSocketPath)
	default:
		return plainText(text)
	}
}

func address(text string) (string, error) {
	a, err := masteraddr.Parse(text)
	return a.String(), err
}

// format prints a value of any field so that parse reads it back.
func format(v any) string {
	switch v := v.(type) {
	case time.Duration:
		return value.FormatDuration(v)
	case []string:
		return strings.Join(v, ",")
	case float64:
		return value.FormatFloat(v)
	case nil:
		return ""
	default:
		return fmt.Sprint(v)
	}
}
