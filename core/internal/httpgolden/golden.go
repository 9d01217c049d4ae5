// Package httpgolden reads recorded HTTP exchanges for tests. Each section has a line "### METHOD
// target", the answer's head, an empty line, and a body of Content-Length bytes.
package httpgolden

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
)

// Exchange is one recorded request and its answer.
type Exchange struct {
	Method, Target string
	Status         int
	// ContentType is empty if the answer had none.
	ContentType string
	Body        string
}

var section = regexp.MustCompile(`(?m)^### ([A-Z]+) (\S+)$`)

// Read returns the exchanges of a file in their order.
func Read(path string) ([]Exchange, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	text := strings.ReplaceAll(string(raw), "\r\n", "\n")
	var out []Exchange
	for _, at := range section.FindAllStringSubmatchIndex(text, -1) {
		x := Exchange{Method: text[at[2]:at[3]], Target: text[at[4]:at[5]]}
		head, body, ok := strings.Cut(text[at[1]+1:], "\n\n")
		if !ok {
			return nil, fmt.Errorf("%s: %s %s has no body", path, x.Method, x.Target)
		}
		lines := strings.Split(head, "\n")
		if _, err := fmt.Sscanf(lines[0], "HTTP/1.1 %d", &x.Status); err != nil {
			return nil, fmt.Errorf("%s: %s %s: %q: %w", path, x.Method, x.Target, lines[0], err)
		}
		length := 0
		for _, l := range lines[1:] {
			name, value, _ := strings.Cut(l, ": ")
			switch name {
			case "Content-Type":
				x.ContentType = value
			case "Content-Length":
				if length, err = strconv.Atoi(value); err != nil || length > len(body) {
					return nil, fmt.Errorf("%s: %s %s: length %q of %d", path, x.Method, x.Target, value, len(body))
				}
			}
		}
		x.Body = body[:length]
		out = append(out, x)
	}
	return out, nil
}
