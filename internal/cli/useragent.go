package cli

// userAgent is how our own requests sign, and the field manager of what they write.
const userAgent = "rehearse"
