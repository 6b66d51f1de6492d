// The form that swaps a token for a cookie, which no script can read.

import { h } from "./dom.js";
import { get } from "./feed.js";

export function loginView(message, onSuccess) {
  const submit = async (event) => {
    event.preventDefault();
    const field = document.getElementById("token");
    const trouble = document.getElementById("login-trouble");
    try {
      await get("/api/login", { method: "POST", headers: { "Content-Type": "text/plain" }, body: field.value });
      field.value = "";
      onSuccess();
    } catch (error) {
      trouble.textContent = error.message;
      field.focus();
    }
  };
  return [
    h("h1", {}, "Sign in"),
    h("form", { class: "card login", onsubmit: submit },
      h("p", {}, "This coordinator asks who you are. Give a token of the role viewer, submitter or operator."),
      h("label", { for: "token" }, "Token"),
      h("input", { id: "token", type: "password", autocomplete: "current-password", required: true, "data-keep": true }),
      h("p", { id: "login-trouble", class: "bad-text", role: "alert", "data-keep": true }, message.startsWith("sign in") ? "" : message),
      h("button", { type: "submit" }, "Sign in")),
  ];
}
