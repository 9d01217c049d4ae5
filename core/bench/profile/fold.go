package profile

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/google/pprof/profile"

	"github.com/mooncake-go/mooncake/core/bench/profile/flame"
)

// fold merges the samples of a profile that have the same functions on their stack, by the
// value with the given index, and orders them by their functions.
func fold(p *profile.Profile, index int) []flame.Stack {
	values := map[string]int64{}
	var b strings.Builder
	for _, s := range p.Sample {
		b.Reset()
		for i := len(s.Location) - 1; i >= 0; i-- {
			writeFrames(&b, s.Location[i])
		}
		values[strings.TrimSuffix(b.String(), ";")] += s.Value[index]
	}
	out := make([]flame.Stack, 0, len(values))
	for frames, v := range values {
		if v > 0 {
			out = append(out, flame.Stack{Frames: strings.Split(frames, ";"), Value: v})
		}
	}
	slices.SortFunc(out, func(a, b flame.Stack) int { return slices.Compare(a.Frames, b.Frames) })
	return out
}

// separators would split a name in two in the folded form.
var separators = strings.NewReplacer(";", ":", "\n", " ", "\r", " ")

// writeFrames writes the functions at a location, with those inlined there, outermost first.
func writeFrames(b *strings.Builder, l *profile.Location) {
	if len(l.Line) == 0 {
		fmt.Fprintf(b, "0x%x;", l.Address)
	}
	for i := len(l.Line) - 1; i >= 0; i-- {
		name := ""
		if f := l.Line[i].Function; f != nil {
			name = f.Name
		}
		b.WriteString(separators.Replace(cmp.Or(name, fmt.Sprintf("0x%x", l.Address))))
		b.WriteByte(';')
	}
}

// writeFolded writes a line for each stack, as flame graph tools read it: functions, outermost
// first, with semicolons between them, and the value.
func writeFolded(w io.Writer, stacks []flame.Stack) error {
	out := bufio.NewWriter(w)
	for _, s := range stacks {
		fmt.Fprintf(out, "%s %d\n", strings.Join(s.Frames, ";"), s.Value)
	}
	return out.Flush()
}
