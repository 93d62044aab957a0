package html

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"io"
	"strings"

	"github.com/rehearse-k8s/rehearse/internal/report"
)

// Limit is the maximal size of a page in bytes.
const Limit = 1 << 20

var (
	//go:embed page.html
	pageText string
	//go:embed style.css
	styleText string
	//go:embed script.js
	scriptText string

	page = template.Must(template.New("page").Parse(pageText))
	// policy allows only this style and this script. Text from a cluster is escaped; the policy protects
	// readers even if the escaping were wrong.
	policy = fmt.Sprintf("default-src 'none'; img-src data:; style-src %s %s; script-src %s; base-uri 'none'; form-action 'none'",
		hashOf(styleText), hashOf(noScriptStyle), hashOf(scriptText))
)

// noScriptStyle opens all details if scripts are disabled. page.html contains it, too.
const noScriptStyle = "tr.detail[hidden] { display: table-row }"

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// size limits how much of a run is drawn.
type size struct {
	rows       int  // steps of a run
	fields     int  // fields of one difference between two states of an object
	causesOnly bool // details only of steps that led to the failure
	facts      int  // entries of other lists
}

// sizes are tried from the largest to the smallest, until the page is within its limit.
var sizes = []size{
	{1500, 150, false, 50}, {1500, 40, false, 50}, {1000, 20, true, 50}, {600, 20, true, 20}, {300, 20, true, 20},
	{150, 10, true, 10}, {60, 5, true, 5}, {25, 0, true, 3}, {8, 0, true, 1},
}

// Write writes the page. To stay within the limit, it leaves out the parts that are furthest from the
// failures; the page says so.
func Write(w io.Writer, r *report.Report) error {
	var b limited
	for i, s := range sizes {
		if err := render(&b, r.Runs, 0, s, i > 0); err == nil {
			_, err = w.Write(b.Bytes())
			return err
		} else if !errors.Is(err, errTooLong) {
			return err
		}
	}
	// The runs are so many that some are left out.
	for n := len(r.Runs) / 2; ; n /= 2 {
		err := render(&b, r.Runs[:n], len(r.Runs)-n, sizes[len(sizes)-1], true)
		if err == nil {
			_, err = w.Write(b.Bytes())
			return err
		}
		if n == 0 || !errors.Is(err, errTooLong) {
			return err
		}
	}
}

// limited is a buffer that returns an error when a page becomes too long, so that such a page is not drawn to
// its end.
type limited struct{ bytes.Buffer }

var errTooLong = errors.New("the page would be too long")

func (l *limited) Write(p []byte) (int, error) {
	if l.Len()+len(p) > Limit {
		return 0, errTooLong
	}
	return l.Buffer.Write(p)
}

func render(b *limited, runs []*report.Run, leftOut int, s size, short bool) error {
	p := pageView{
		Title: "rehearse", Policy: policy, Style: template.CSS(styleText), Script: template.JS(scriptText),
		Runs: func(yield func(runView) bool) {
			for i, r := range runs {
				if !yield(viewOf(r, fmt.Sprintf("r%d", i+1), s)) {
					return
				}
			}
		},
	}
	if len(runs) > 0 {
		p.Title = verdictOf(runs[0]) + " – rehearse"
	}
	if leftOut > 0 {
		p.RunsLeftOut = plural(leftOut, "run") + " left out: the page would be too long. Pass fewer files."
	}
	if short {
		p.CutShort = fmt.Sprintf("Shortened to stay below %d KiB: long lists, and details of steps that did not lead to the failure, are left out. -o json contains everything.", Limit>>10)
	}
	b.Reset()
	if err := page.Execute(b, p); err != nil {
		return fmt.Errorf("html: %w", err)
	}
	return nil
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// clip limits the length of a text.
func clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
