package html

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"strings"

	"github.com/rehearse-k8s/rehearse/report"
)

// Limit is the most bytes that a page has.
const Limit = 1 << 20

var (
	//go:embed page.html
	pageText string
	//go:embed style.css
	styleText string
	//go:embed script.js
	scriptText string

	page = template.Must(template.New("page").Parse(pageText))
	// policy lets this style and this script run, and nothing else: what comes from a
	// cluster is escaped, and if it were not, it still could do nothing.
	policy = fmt.Sprintf("default-src 'none'; img-src data:; style-src %s %s; script-src %s; base-uri 'none'; form-action 'none'",
		hashOf(styleText), hashOf(noScriptStyle), hashOf(scriptText))
)

// noScriptStyle opens all details where no script can; it stands in page.html too.
const noScriptStyle = "tr.detail[hidden] { display: table-row }"

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// size is how much of a run is drawn.
type size struct {
	rows   int  // at most so many steps of a run
	fields int  // of one difference between two states of an object
	story  bool // details only of steps that led to the failure
	facts  int  // lists of other things
}

// sizes are tried from the largest to the smallest, until the page is within its limit.
var sizes = []size{
	{1500, 150, false, 50}, {1500, 40, false, 50}, {1000, 20, true, 50}, {600, 20, true, 20}, {300, 20, true, 20},
	{150, 10, true, 10}, {60, 5, true, 5}, {25, 0, true, 3}, {8, 0, true, 1},
}

// Write writes the page. Of what would make it longer than its limit the parts
// furthest from the failures are left out, and the page says so.
func Write(w io.Writer, r *report.Report) error {
	for i, s := range sizes {
		text, err := render(r.Runs, 0, s, i > 0)
		if err != nil {
			return err
		}
		if len(text) <= Limit {
			_, err = w.Write(text)
			return err
		}
	}
	// So many runs that not all of them can be told of.
	for n := len(r.Runs) / 2; ; n /= 2 {
		text, err := render(r.Runs[:n], len(r.Runs)-n, sizes[len(sizes)-1], true)
		if err != nil {
			return err
		}
		if len(text) <= Limit {
			_, err = w.Write(text)
			return err
		}
		if n == 0 {
			return fmt.Errorf("html: a page without any run has %d bytes", len(text))
		}
	}
}

func render(runs []*report.Run, leftOut int, s size, short bool) ([]byte, error) {
	p := pageView{
		Title: "rehearse", Policy: policy, Style: template.CSS(styleText), Script: template.JS(scriptText),
	}
	for i, r := range runs {
		v := viewOf(r, fmt.Sprintf("r%d", i+1), s)
		if i == 0 {
			p.Title = v.Verdict + " – rehearse"
		}
		p.Runs = append(p.Runs, v)
	}
	if leftOut > 0 {
		p.RunsLeftOut = plural(leftOut, "run") + " left out: the page would be too long. Draw fewer files at once."
	}
	if short {
		p.CutShort = fmt.Sprintf("Cut short to stay below %d KiB: long lists, and details of steps that did not lead to the failure, are left out. -o json has all of it.", Limit>>10)
	}
	var b bytes.Buffer
	if err := page.Execute(&b, p); err != nil {
		return nil, fmt.Errorf("html: %w", err)
	}
	return b.Bytes(), nil
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// clip bounds a text that stands by itself.
func clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
