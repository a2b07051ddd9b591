// Search in a copy of the site on a disk: browsers start no workers from `file:` addresses, so the worker's script
// runs in a hidden frame instead. `offline` would fetch a script for this from a server.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      this.waiting = []
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.append(frame)
      this.inner = frame.contentWindow
      // Firefox replaces the first document of a frame, with its variables, unless it is written.
      this.inner.document.open()
      this.inner.document.write("<!doctype html><title>Search</title>")
      this.inner.document.close()
      this.inner.postMessage = data => deliver(this, MessageEvent, data)
      const script = this.inner.document.createElement("script")
      script.onload = () => {
        const messages = this.waiting
        this.waiting = null
        messages.forEach(data => this.postMessage(data))
      }
      script.onerror = () => this.dispatchEvent(new ErrorEvent("error", { message: `${url} is missing` }))
      script.src = new URL(url, location.href)
      this.inner.document.body.append(script)
    }

    postMessage(data) {
      if (this.waiting) this.waiting.push(data)
      else deliver(this.inner, this.inner.MessageEvent, data)
    }
  }

  // Delivers a message after the running script, as workers do.
  function deliver(target, Event, data) {
    setTimeout(() => target.dispatchEvent(new Event("message", { data })))
  }
}
