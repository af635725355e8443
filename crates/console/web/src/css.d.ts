// The bundler takes style sheets along; the compiler need not know them.
declare module "*.css";
