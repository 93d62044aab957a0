package stage

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"
)

// value is one result of an expression, without garbage for the usual ones.
type value struct {
	kind   valueKind
	text   string  // of texts
	number float64 // of numbers; 1 for true
	at     time.Time
	span   time.Duration
}

type valueKind uint8

const (
	// valueNone: there is no result, or null.
	valueNone valueKind = iota
	valueText
	valueNumber
	valueTruth
	valueTime
	valueSpan
	// valueOther is an object or an array: it is there, and equals no text.
	valueOther
)

// valueOf is the value of a plain JSON value, as jq and unstructured objects
// hold them.
func valueOf(v any) value {
	switch v := v.(type) {
	case nil:
		return value{}
	case string:
		return value{kind: valueText, text: v}
	case bool:
		if v {
			return value{kind: valueTruth, number: 1}
		}
		return value{kind: valueTruth}
	case int:
		return value{kind: valueNumber, number: float64(v)}
	case int64:
		return value{kind: valueNumber, number: float64(v)}
	case float64:
		return value{kind: valueNumber, number: v}
	case json.Number:
		n, _ := v.Float64()
		return value{kind: valueNumber, number: n}
	case fmt.Stringer: // *big.Int
		n, err := strconv.ParseFloat(v.String(), 64)
		if err == nil {
			return value{kind: valueNumber, number: n}
		}
	}
	return value{kind: valueOther}
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

// short is a text for a sentence: quoted, and cut where it is long.
func short(text string) string {
	const most = 64
	if len(text) > most {
		return strconv.Quote(text[:most]) + fmt.Sprintf("… (%d bytes)", len(text))
	}
	return strconv.Quote(text)
}

// describe is a value for a sentence.
func (v value) describe() string {
	switch v.kind {
	case valueText:
		return short(v.text)
	case valueNumber:
		return "the number " + strconv.FormatFloat(v.number, 'g', -1, 64)
	case valueTruth:
		return strconv.FormatBool(v.number == 1)
	case valueTime:
		return v.at.Format(time.RFC3339)
	case valueSpan:
		return v.span.String()
	case valueOther:
		return "an object or a list"
	}
	return "nothing"
}
