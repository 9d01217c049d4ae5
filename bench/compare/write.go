package compare

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
)

// WriteJSON writes the rows as one list, empty for no rows.
func WriteJSON(w io.Writer, rows []Row) error {
	if rows == nil {
		rows = []Row{}
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	return e.Encode(rows)
}

// WriteMarkdown writes the rows as a table. A ratio that misses its goal is bold.
func WriteMarkdown(w io.Writer, rows []Row) error {
	var b strings.Builder
	b.WriteString("| work | ours | peer | unit | ratio | goal | CPU ours | CPU peer | CPU unit | CPU ratio | CPU goal | beside |\n" +
		"|---|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n",
			cell(r.Work), number(r.Ours), number(r.Peer), cell(r.Unit), marked(r.Ratio, r.Missed()), number(r.Goal),
			number(r.CPUOurs), number(r.CPUPeer), cell(cmp.Or(r.CPUUnit, "-")), marked(r.CPURatio, r.MissedCPU()), number(r.CPUGoal), cell(r.PeerName))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// marked is a ratio, bold where it misses its goal.
func marked(ratio *float64, missed bool) string {
	if missed && ratio != nil {
		return "**" + number(ratio) + "**"
	}
	return number(ratio)
}

// cell keeps a text from ending its cell or its line.
func cell(s string) string {
	return strings.NewReplacer("|", `\|`, "\r", " ", "\n", " ").Replace(s)
}

// number shows three digits that matter.
func number(v *float64) string {
	switch {
	case v == nil:
		return "-"
	case math.Abs(*v) >= 100:
		return fmt.Sprintf("%.0f", *v)
	case *v == 0:
		return "0"
	}
	decimals := max(0, 2-int(math.Floor(math.Log10(math.Abs(*v)))))
	return fmt.Sprintf("%.*f", min(decimals, 6), *v)
}
