package expr

import (
	"encoding/json"
	"fmt"
	"github.com/rehearse-k8s/rehearse/internal/stage/limit"
	"math"
	"strconv"
	"time"
)

// Value is one result of an expression, without garbage for the usual ones.
type Value struct {
	Kind     Kind
	Text     string  // of texts
	Number   float64 // of numbers; 1 for true
	Time     time.Time
	Duration time.Duration
}

type Kind uint8

const (
	// valueNone: there is no result, or null.
	None Kind = iota
	Text
	Number
	Bool
	Time
	Duration
	// Other is an object or an array: it is there, and equals no text.
	Other
)

// valueOf is the value of a plain JSON value, as jq and unstructured objects
// hold them.
func valueOf(v any) Value {
	switch v := v.(type) {
	case nil:
		return Value{}
	case string:
		return Value{Kind: Text, Text: v}
	case bool:
		if v {
			return Value{Kind: Bool, Number: 1}
		}
		return Value{Kind: Bool}
	case int:
		return Value{Kind: Number, Number: float64(v)}
	case int64:
		return Value{Kind: Number, Number: float64(v)}
	case float64:
		return Value{Kind: Number, Number: v}
	case json.Number:
		n, _ := v.Float64()
		return Value{Kind: Number, Number: n}
	case fmt.Stringer: // *big.Int
		n, err := strconv.ParseFloat(v.String(), 64)
		if err == nil {
			return Value{Kind: Number, Number: n}
		}
	}
	return Value{Kind: Other}
}

// equals reports whether a plain JSON value is text: a number and a boolean
// equal their JSON text.
func equals(v any, text string) bool {
	var buffer [32]byte
	switch v := v.(type) {
	case string:
		return v == text
	case bool:
		return text == "true" && v || text == "false" && !v
	case int:
		return string(strconv.AppendInt(buffer[:0], int64(v), 10)) == text
	case int64:
		return string(strconv.AppendInt(buffer[:0], v, 10)) == text
	case float64:
		return string(appendFloat(buffer[:0], v)) == text
	case fmt.Stringer: // *big.Int
		return v.String() == text
	}
	return false
}

// appendFloat writes a number as encoding/json does.
func appendFloat(to []byte, f float64) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return append(to, "null"...)
	}
	format := byte('f')
	if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	to = strconv.AppendFloat(to, f, format, -1, 64)
	if n := len(to); format == 'e' && n >= 4 && to[n-4] == 'e' && to[n-3] == '-' && to[n-2] == '0' {
		to[n-2] = to[n-1]
		to = to[:n-1]
	}
	return to
}

// Describe is a value for a sentence.
func (v Value) Describe() string {
	switch v.Kind {
	case Text:
		return limit.Quote(v.Text)
	case Number:
		return "the number " + strconv.FormatFloat(v.Number, 'g', -1, 64)
	case Bool:
		return strconv.FormatBool(v.Number == 1)
	case Time:
		return v.Time.Format(time.RFC3339)
	case Duration:
		return v.Duration.String()
	case Other:
		return "an object or a list"
	}
	return "nothing"
}
