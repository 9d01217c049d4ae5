package quota

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

const (
	// MaxQuota is the largest quota, in bytes.
	MaxQuota = math.MaxInt64
	// MaxTenants is how many tenants a policy may name.
	MaxTenants = 1 << 14
	// MaxPolicySize is the most bytes of a policy's text.
	MaxPolicySize = 8 << 20
)

// Entry is one tenant of a policy.
type Entry struct {
	Name  model.Tenant
	Quota uint64 // bytes, 1 to MaxQuota
}

// Policy is what the operator wants: which tenants may write, and how much each. Tenants are
// sorted by name, and no two have one name.
type Policy struct{ Tenants []Entry }

// ParsePolicy reads a policy:
//
//	version: 1
//	tenants:
//	  - name: team-a
//	    quota: 200GB
//
// It is strict: fields that it does not know, tenants that appear twice, and quotas that it
// cannot read are refused with their line, code InvalidParams.
func ParsePolicy(data []byte) (Policy, error) {
	if len(data) > MaxPolicySize {
		return Policy{}, bad(0, "it has %d bytes; the most is %d", len(data), MaxPolicySize)
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return Policy{}, bad(0, "it is empty; it begins with \"version: 1\"")
	} else if err != nil {
		return Policy{}, bad(0, "it is not valid YAML: %s", strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		return Policy{}, bad(more.Line, "only one YAML document is allowed")
	}
	top, err := fields(doc.Content[0], "version", "tenants")
	if err != nil {
		return Policy{}, err
	}
	if v := top["version"]; v.Kind != yaml.ScalarNode || v.Value != "1" {
		return Policy{}, bad(v.Line, "version is %q; this master reads version 1", v.Value)
	}
	list := top["tenants"]
	if list.Kind != yaml.SequenceNode {
		return Policy{}, bad(list.Line, "tenants is no list; write one \"- name: ...\" with its \"quota: ...\" for each tenant, or []")
	}
	if len(list.Content) > MaxTenants {
		return Policy{}, bad(list.Line, "it names %d tenants; the most is %d", len(list.Content), MaxTenants)
	}
	var p Policy
	lines := map[model.Tenant]int{}
	for _, n := range list.Content {
		e, err := entry(n)
		if err != nil {
			return Policy{}, err
		}
		if first := lines[e.Name]; first != 0 {
			return Policy{}, bad(n.Line, "tenant %q was named in line %d already", e.Name, first)
		}
		lines[e.Name] = n.Line
		p.Tenants = append(p.Tenants, e)
	}
	p.sort()
	return p, nil
}

func entry(n *yaml.Node) (Entry, error) {
	f, err := fields(n, "name", "quota")
	if err != nil {
		return Entry{}, err
	}
	name, quota := f["name"], f["quota"]
	if name.Kind != yaml.ScalarNode || name.Value == "" || name.Tag == "!!null" {
		return Entry{}, bad(name.Line, "the name of a tenant is missing")
	}
	if err := model.ValidateTenant(name.Value); err != nil {
		return Entry{}, bad(name.Line, "%v", err)
	}
	if quota.Kind != yaml.ScalarNode {
		return Entry{}, bad(quota.Line, "the quota of tenant %q is no size", name.Value)
	}
	bytes, err := ParseQuota(quota.Value)
	if err != nil {
		return Entry{}, bad(quota.Line, "the quota of tenant %q: %v", name.Value, err)
	}
	return Entry{Name: name.Value, Quota: bytes}, nil
}

// fields returns the values of a mapping that has exactly these names.
func fields(n *yaml.Node, names ...string) (map[string]*yaml.Node, error) {
	want := strings.Join(names, " and ")
	if n.Kind != yaml.MappingNode {
		return nil, bad(n.Line, "%s are expected here", want)
	}
	out := map[string]*yaml.Node{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name := n.Content[i]
		if !slices.Contains(names, name.Value) {
			return nil, bad(name.Line, "%q is not known here; %s are", name.Value, want)
		}
		if out[name.Value] != nil {
			return nil, bad(name.Line, "%q is given twice", name.Value)
		}
		out[name.Value] = n.Content[i+1]
	}
	for _, name := range names {
		if out[name] == nil {
			return nil, bad(n.Line, "%q is missing", name)
		}
	}
	return out, nil
}

func bad(line int, format string, args ...any) error {
	if line > 0 {
		format = fmt.Sprintf("line %d: %s", line, strings.ReplaceAll(format, "\n", " "))
	}
	return errs.New(errs.InvalidParams, "tenant quota policy", format, args...)
}

// Encode returns the text of the policy, which ParsePolicy reads back.
func (p Policy) Encode() []byte {
	var out bytes.Buffer
	out.WriteString("version: 1\n\n")
	if len(p.Tenants) == 0 {
		out.WriteString("tenants: []\n")
		return out.Bytes()
	}
	out.WriteString("tenants:\n")
	for _, e := range p.Tenants {
		fmt.Fprintf(&out, "  - name: %s\n    quota: %s\n", quoted(e.Name), formatQuota(e.Quota))
	}
	return out.Bytes()
}

// quoted returns a name as a double-quoted YAML scalar; names hold no control characters.
func quoted(s string) string {
	var y yaml.Node
	y.SetString(s)
	y.Style = yaml.DoubleQuotedStyle
	b, err := yaml.Marshal(&y)
	if err != nil || bytes.Contains(bytes.TrimSpace(b), []byte("\n")) {
		return strconv.Quote(s)
	}
	return string(bytes.TrimSpace(b))
}

// with returns the policy with one tenant set, or with 0 bytes taken out.
func (p Policy) with(t model.Tenant, bytes uint64) Policy {
	out := Policy{Tenants: slices.DeleteFunc(slices.Clone(p.Tenants), func(e Entry) bool { return e.Name == t })}
	if bytes > 0 {
		out.Tenants = append(out.Tenants, Entry{Name: t, Quota: bytes})
		out.sort()
	}
	return out
}

func (p Policy) sort() {
	slices.SortFunc(p.Tenants, func(a, b Entry) int { return cmp.Compare(a.Name, b.Name) })
}

// Owner returns the tenant of a string that model.ScopedKey made.
func Owner(scoped string) model.Tenant {
	tenant, _, _ := model.SplitKey(scoped)
	return tenant
}

type unit struct {
	name  string
	bytes uint64
}

// units are multiples of 1024, the largest first.
var units = [...]unit{{"TB", 1 << 40}, {"GB", 1 << 30}, {"MB", 1 << 20}, {"KB", 1 << 10}, {"B", 1}}

// ParseQuota reads a quota: a whole number of bytes, or of B, KB, MB, GB or TB, which are
// multiples of 1024, without blanks.
func ParseQuota(text string) (uint64, error) {
	digits := strings.TrimRight(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ")
	name := text[len(digits):]
	if name == "" {
		name = "B"
	}
	for _, u := range units {
		if u.name != name {
			continue
		}
		n, err := strconv.ParseUint(digits, 10, 64)
		switch {
		case err != nil && strings.Trim(digits, "0123456789") != "", digits == "":
			return 0, badQuota(text)
		case err != nil || n > MaxQuota/u.bytes:
			return 0, fmt.Errorf("%q is more than a quota can be, %d bytes", text, int64(MaxQuota))
		case n == 0:
			return 0, fmt.Errorf("%q is nothing; take the tenant out of the list to forbid it to write", text)
		}
		return n * u.bytes, nil
	}
	return 0, badQuota(text)
}

func badQuota(text string) error {
	return fmt.Errorf("%q is no quota: write a whole number with B, KB, MB, GB or TB, such as 200GB", text)
}

// formatQuota writes a quota in the largest unit that divides it.
func formatQuota(bytes uint64) string {
	for _, u := range units {
		if bytes%u.bytes == 0 {
			return strconv.FormatUint(bytes/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatUint(bytes, 10)
}
