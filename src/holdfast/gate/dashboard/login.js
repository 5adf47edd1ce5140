// Takes the secret of the link out of the address at once, and exchanges it for a cookie.
const said = document.getElementById("said");
const code = location.hash.slice(1);
history.replaceState(null, "", "/login");

async function logIn() {
  if (!code) {
    said.textContent = "Run `holdfast dashboard` in a terminal: it opens a link that logs in here.";
    return;
  }
  const answer = await fetch("/login", {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-Holdfast-Page": "login" },
    body: JSON.stringify({ code }),
  });
  const told = await answer.json();
  if (!answer.ok) {
    said.textContent = `This link does not work (any more): ${told.detail}. `
      + "Run `holdfast dashboard` again.";
    said.dataset.state = "refused";
    return;
  }
  localStorage.setItem("holdfast-page", told.page);
  location.replace("/dashboard");
}

logIn().catch((error) => { said.textContent = `Holdfast does not answer: ${error.message}`; });
