package metadata

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// quote shortens and quotes a name for an error.
func quote(s string) string {
	if len(s) > 80 {
		s = s[:80] + "..."
	}
	q, err := marshal(strings.ToValidUTF8(s, "\uFFFD"))
	if err != nil {
		return "?"
	}
	return string(q)
}

func validText(texts ...string) bool {
	return !slices.ContainsFunc(texts, func(s string) bool { return !utf8.ValidString(s) })
}

// marshal is json.Marshal without the escapes for HTML, which would change bytes that
// peers compare.
func marshal(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, errs.Wrap(errs.Internal, "metadata: encode", err)
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}
