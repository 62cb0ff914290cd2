// SPDX-License-Identifier: Apache-2.0
// A real identity provider: the npm package oidc-provider, found through its folder (first argument), on a port of the loopback interface.
//
// It is told what to do by lines of JSON on standard input and answers each with one: {"keys": ["RS256", "ES256", "EdDSA"]} gives it new keys, of which the first
// of an algorithm signs; with "keep" the old ones are published behind them. Tokens are asked for in the ordinary ways:
//   POST /token with grant_type=client_credentials, a client below and resource=urn:vial:ALG:SECONDS:AUDIENCE   an access token (RFC 9068)
//   GET /auth ... as a browser would, where the person `carol` signs in without being asked                     an ID token
import { createRequire } from "node:module";
import { createServer } from "node:http";
import { createInterface } from "node:readline";
import { generateKeyPairSync } from "node:crypto";
import { pathToFileURL } from "node:url";

// Its advice for production would come between our lines.
console.info = console.warn = () => {};
const entry = createRequire(process.argv[2] + "/").resolve("oidc-provider");
const { default: Provider } = await import(pathToFileURL(entry));

// What the claims of a client's tokens are besides the ordinary ones: machines that stand for people with these.
const people = {
  alice: { groups: ["ml-platform", "everybody"], email: "alice@example.com", email_verified: true },
  bob: { groups: ["everybody"], department: "data", preferred_username: "bob" },
  eve: { groups: ["ml-platform-fans"], email: "eve@example.com", email_verified: false, name: "Eve" },
};
const kinds = { RS256: ["rsa", { modulusLength: 2048 }], ES256: ["ec", { namedCurve: "P-256" }], EdDSA: ["ed25519", {}] };

let made = 0;
let jwks = { keys: [] };
let provider;
let issuer;

function makeKey(alg) {
  return { ...generateKeyPairSync(...kinds[alg]).privateKey.export({ format: "jwk" }), kid: `${alg}-${++made}`, alg, use: "sig" };
}

async function interact(request, response) {
  const details = await provider.interactionDetails(request, response);
  if (details.prompt.name === "login") {
    return provider.interactionFinished(request, response, { login: { accountId: "carol" } });
  }
  const grant = new provider.Grant({ accountId: details.session.accountId, clientId: details.params.client_id });
  grant.addOIDCScope("openid email groups");
  return provider.interactionFinished(request, response, { consent: { grantId: await grant.save() } });
}

function makeProvider() {
  const machines = Object.keys(people).map((id) => ({
    client_id: id, client_secret: "secret", grant_types: ["client_credentials"], redirect_uris: [], response_types: [],
  }));
  const page = { client_id: "vial-page", client_secret: "secret", redirect_uris: ["https://page.example/back"], grant_types: ["authorization_code"] };
  return new Provider(issuer, {
    jwks,
    clients: [...machines, ...Object.keys(kinds).map((alg) => ({ ...page, client_id: `vial-page-${alg}`, id_token_signed_response_alg: alg }))],
    enabledJWA: { idTokenSigningAlgValues: Object.keys(kinds) },
    cookies: { keys: ["for tests"] },
    claims: { openid: ["sub"], email: ["email", "email_verified"], groups: ["groups"] },
    conformIdTokenClaims: false,
    pkce: { required: () => false },
    findAccount: (context, id) => ({
      accountId: id,
      claims: () => ({ sub: id, email: `${id}@example.com`, email_verified: true, groups: ["everybody", "people"] }),
    }),
    interactions: { url: (context, interaction) => `/interaction/${interaction.uid}` },
    extraTokenClaims: (context, token) => people[token.clientId],
    features: {
      devInteractions: { enabled: false },
      clientCredentials: { enabled: true },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => undefined,
        getResourceServerInfo: (context, resource) => {
          const [, , alg, seconds, audience] = resource.split(":");
          return { scope: "", audience, accessTokenTTL: Number(seconds), accessTokenFormat: "jwt", jwt: { sign: { alg } } };
        },
      },
    },
  });
}

const server = createServer((request, response) => {
  if (request.url.startsWith("/interaction/")) {
    interact(request, response).catch((error) => response.writeHead(500).end(String(error)));
  } else {
    provider.callback()(request, response);
  }
});

const port = await new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(server.address().port)));
issuer = `http://127.0.0.1:${port}`;
jwks.keys = Object.keys(kinds).map(makeKey);
provider = makeProvider();
console.log(JSON.stringify({ issuer }));

for await (const line of createInterface({ input: process.stdin })) {
  const order = JSON.parse(line);
  jwks = { keys: [...order.keys.map(makeKey), ...(order.keep ? jwks.keys : [])] };
  provider = makeProvider();
  console.log(JSON.stringify({ keys: jwks.keys.map((key) => key.kid) }));
}
process.exit(0);
