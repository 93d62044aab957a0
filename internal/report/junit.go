package report

import (
	"encoding/xml"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// The elements of JUnit XML. Each test is a suite, each run a case in it.
type (
	junitSuites struct {
		XMLName  xml.Name      `xml:"testsuites"`
		Name     string        `xml:"name,attr"`
		Tests    int           `xml:"tests,attr"`
		Failures int           `xml:"failures,attr"`
		Errors   int           `xml:"errors,attr"`
		Skipped  int           `xml:"skipped,attr"`
		Suites   []*junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Errors   int         `xml:"errors,attr"`
		Skipped  int         `xml:"skipped,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Class   string        `xml:"classname,attr"`
		Name    string        `xml:"name,attr"`
		File    string        `xml:"file,attr,omitempty"`
		Time    string        `xml:"time,attr"` // of the run's clock, in seconds
		Failure *junitProblem `xml:"failure,omitempty"`
		Error   *junitProblem `xml:"error,omitempty"`
		Skipped *junitSkipped `xml:"skipped,omitempty"`
		Output  string        `xml:"system-out,omitempty"`
	}
	junitSkipped struct {
		Message string `xml:"message,attr"`
	}
	junitProblem struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr"`
		Text    string `xml:",cdata"`
	}
)

// WriteJUnit writes a report as JUnit XML. A failed run is a failure, an inconclusive one an error, and a failure
// that was seen once is skipped. All contain the lanes, which are drawn with the given options.
func WriteJUnit(w io.Writer, r *Report, lanes LaneOptions) error {
	all := junitSuites{Name: "rehearse"}
	byTest := map[string]*junitSuite{}
	lanes.Colour = false
	for i, run := range r.Runs {
		suite := byTest[run.Test]
		if suite == nil {
			suite = &junitSuite{Name: or(run.Test, "runs")}
			byTest[run.Test] = suite
			all.Suites = append(all.Suites, suite)
		}
		var text strings.Builder
		if err := WriteText(&text, run, lanes); err != nil {
			return err
		}
		c := junitCase{Class: or(run.Test, "runs"), File: run.File, Time: seconds(run)}
		if c.Name = filepath.Base(run.File); run.File == "" {
			c.Name = "run " + strconv.Itoa(i+1)
		}
		suite.Tests++
		all.Tests++
		switch v := run.Verdict; {
		case run.SeenOnce:
			c.Skipped = &junitSkipped{Message: "seen once: " + v.Invariant + ": " + v.Message}
			c.Output = text.String()
			suite.Skipped++
			all.Skipped++
		case v.Result == Failed:
			c.Failure = &junitProblem{Message: v.Invariant + ": " + v.Message, Type: "violated invariant", Text: text.String()}
			suite.Failures++
			all.Failures++
		case v.Result == Inconclusive:
			c.Error = &junitProblem{Message: v.Message, Type: "inconclusive", Text: text.String()}
			suite.Errors++
			all.Errors++
		default:
			c.Output = run.Cause
		}
		suite.Cases = append(suite.Cases, c)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	enc := xml.NewEncoder(w)
	enc.Indent("", "  ")
	if err := enc.Encode(all); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

func seconds(run *Run) string {
	at := time.Duration(0)
	if n := len(run.Steps); n > 0 {
		at = run.Steps[n-1].At
	}
	return strconv.FormatFloat(at.Seconds(), 'f', 3, 64)
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}
