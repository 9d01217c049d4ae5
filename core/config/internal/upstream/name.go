package upstream

import (
	"errors"
	"fmt"
	"strings"

	"github.com/mooncake-go/mooncake/core/config/internal/value"
)

// Name is one setting of upstream.
type Name struct {
	// Name is spelled as upstream spells it. In the environment table a trailing * stands
	// for any ending.
	Name string
	// Type is the type upstream gives it; bare durations are in milliseconds.
	Type Type
	// Default is upstream's default, as text.
	Default string
	// Bounds upstream enforces: a closed range as "min..max" with either side empty, > before
	// a minimum that is not allowed itself, and the allowed words separated by |.
	Range, Enum string

	// Key is our key, empty where the setting has no effect here.
	Key string
	// Unit is what a bare number counts in when Key is a duration.
	Unit value.Unit
	// Values translates upstream's words (lower case) to ours; "*" stands for any other.
	Values map[string]string
	// ZeroUnset says that 0 means "not given".
	ZeroUnset bool
	// Negative is the value of Key that a negative number stands for, empty where one is
	// an error, and Suffix what is put behind a number so that Key understands it.
	Negative, Suffix string
	// Fallback says that the setting counts only where no other name gives the same key.
	Fallback bool

	// Feature is the capability a setting without a Key belongs to.
	Feature string
	// Refuse says that running without the setting would break what it promises
	// (durability, availability, isolation): any value but the default is refused.
	Refuse bool
	// RefuseOnly is the one value that is refused so, where the others only have no effect.
	RefuseOnly string
	// Covered says that what the setting promises holds without it, for the reason Feature.
	Covered bool
	// Readers says which of our processes the setting concerns. Flags and file keys leave
	// it 0: they were addressed to the process that got them.
	Readers Reader
	// Deprecated says that upstream has a newer name.
	Deprecated bool
}

// Reader is a set of processes.
type Reader uint8

// The processes. Elsewhere stands for programs that are not ours, such as an inference
// engine's connector or NCCL.
const (
	Master Reader = 1 << iota
	Node
	Metadata
	Elsewhere
)

// Everyone is every process of ours.
const Everyone = Master | Node | Metadata

// Verdict is what becomes of a setting.
type Verdict uint8

// The verdicts.
const (
	Mapped  Verdict = iota // it sets Key
	Same                   // it says what holds anyway
	Later                  // it is known and has no effect yet
	Covered                // what it asks for holds without it
	Refused                // it asks for a promise that cannot be kept
)

// State says in a word what becomes of the name when it is set.
func (n Name) State() string {
	switch {
	case n.Key != "":
		return "supported"
	case n.Readers == Elsewhere:
		return "read by other programs"
	case n.Refuse:
		return "refused"
	case n.Covered:
		return "not needed"
	case n.RefuseOnly != "":
		return n.RefuseOnly + " refused"
	default:
		return "no effect yet"
	}
}

// Judge says what becomes of the setting with this value, and for Mapped with which value
// of Key. The error says what is allowed where upstream would not accept the value either.
func (n Name) Judge(text string) (Verdict, string, error) {
	if n.Values != nil {
		return n.translate(text)
	}
	if n.Key != "" {
		if n.ZeroUnset && strings.TrimSpace(text) == "0" {
			return Same, "", nil
		}
		return Mapped, n.inOurs(strings.TrimSpace(text)), nil
	}
	got, err := n.canonical(text)
	if err != nil {
		return 0, "", err
	}
	usual, err := n.Type.canonical(n.Default)
	switch {
	case err == nil && got == usual:
		return Same, "", nil
	case n.Refuse, n.RefuseOnly != "" && got == n.RefuseOnly:
		return Refused, "", nil
	case n.Covered:
		return Covered, "", nil
	default:
		return Later, "", nil
	}
}

// inOurs is a number as Key takes it.
func (n Name) inOurs(text string) string {
	if n.Negative != "" && len(text) > 1 && text[0] == '-' && strings.Trim(text[1:], "0123456789") == "" {
		return n.Negative
	}
	if text != "" && strings.Trim(text, "0123456789") == "" {
		return text + n.Suffix
	}
	return text
}

func (n Name) translate(text string) (Verdict, string, error) {
	if _, err := n.Type.canonical(text); err != nil && n.Type != Presence {
		return 0, "", err
	}
	ours, ok := n.Values[strings.ToLower(strings.TrimSpace(text))]
	if !ok {
		ours, ok = n.Values["*"]
	}
	if !ok {
		return 0, "", fmt.Errorf("must be one of %s", strings.ReplaceAll(n.Enum, "|", ", "))
	}
	if ours == "" {
		return Same, "", nil
	}
	return Mapped, ours, nil
}

func (n Name) canonical(text string) (string, error) {
	got, err := n.Type.canonical(text)
	if err != nil {
		return "", err
	}
	if n.Enum != "" {
		for _, word := range strings.Split(n.Enum, "|") {
			if strings.EqualFold(word, got) {
				return word, nil
			}
		}
		return "", fmt.Errorf("must be one of %s", strings.ReplaceAll(n.Enum, "|", ", "))
	}
	return got, n.inRange(got)
}

func (n Name) inRange(number string) error {
	if n.Range == "" {
		return nil
	}
	low, high, _ := strings.Cut(n.Range, "..")
	low, open := strings.CutPrefix(low, ">")
	v, err := value.Float(number)
	if err != nil {
		return err
	}
	if l, err := value.Float(low); err == nil && open && v <= l {
		return errors.New("must be greater than " + low)
	} else if err == nil && v < l {
		return errors.New("must be at least " + low)
	}
	if h, err := value.Float(high); err == nil && v > h {
		return errors.New("must be at most " + high)
	}
	return nil
}

// switched translates the spellings of a switch to the words of a key.
func switched(on, off string) map[string]string {
	out := map[string]string{}
	for _, word := range []string{"1", "true", "t", "yes", "y", "on", "enable"} {
		out[word] = on
	}
	for _, word := range []string{"0", "false", "f", "no", "n", "off", "disable"} {
		out[word] = off
	}
	return out
}
